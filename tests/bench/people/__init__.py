"""A thousand users, from the charts' values and from LDAP: logins, what helm makes of them, and their accounts."""
