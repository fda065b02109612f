"""Real workload operators on a development cluster: built from their modules, installed as their makers say.

An operator is one program in an image of its own (`build`), and the manifests in its module, with what an
administrator would edit (`catalog`, `manifests`). It runs as its makers have it run, in pods: its ServiceAccount,
roles, Services, certificates and webhooks are the real ones. `install` brings it in and takes it away whole.
"""
