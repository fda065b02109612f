"""Chooses the devices that a pod gets with its binding: by its ResourceClaims, or from the device plugin of its node.

watch      follows claims, DeviceClasses and ResourceSlices, and knows which claim has which device
allocate   writes devices into claims, for all pods of a binding or for none
made       makes claims for pods that ask for devices as an extended resource
handout    chooses the note that tells the device plugin which GPUs a pod gets
"""
