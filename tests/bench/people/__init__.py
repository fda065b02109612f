"""A thousand users, from the charts' values and from LDAP: how fast they log in, what helm makes of them, and their
accounts.
"""
