"""Enforces NetworkPolicies by nftables in the network namespace of each node."""
