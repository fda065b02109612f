"""Real workload operators on a development cluster, built from their Go modules.

An operator is a program in an image of its own (`build`), and the manifests of its module with the edits that an
administrator would make (`catalog`, `manifests`). It runs in pods with its real ServiceAccount, roles, Services,
certificates and webhooks. `install` installs it, and removes it completely.
"""
