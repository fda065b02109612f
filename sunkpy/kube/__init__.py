"""The Kubernetes API: raw requests with typed decode, watches, leases and Events. Only this package imports kubernetes."""
