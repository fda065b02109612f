"""Chooses the devices that a pod gets when it is bound: by its ResourceClaims, or from the device plugin of its node.

watch      watches claims, DeviceClasses and ResourceSlices, and knows which claim has which device
allocate   writes devices into claims: for all pods that are bound together, or for none
made       creates claims for pods that ask for devices as an extended resource
handout    chooses the annotation that tells the device plugin which GPUs a pod gets
"""
