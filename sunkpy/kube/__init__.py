"""The Kubernetes API: requests with typed decode, watches, leases, Events. Only this package imports kubernetes."""
