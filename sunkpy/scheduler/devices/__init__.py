"""Which devices a pod gets with its binding: by its claims, or from the device plugin of its node.

watch      claims, classes and slices; who has which device
allocate   claims are written, all of a binding or none
made       claims for pods that ask by a resource
handout    notes for the device plugin
"""
