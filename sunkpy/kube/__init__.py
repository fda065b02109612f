"""The client of the Kubernetes API: requests with typed decode, watches, leases, Events. Only this package imports the
official client (`kubernetes`).
"""
