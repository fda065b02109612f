"""Which devices a pod gets with its binding: by its claims, or from the device plugin of its node."""
