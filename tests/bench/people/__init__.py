"""A thousand people, from values and from a directory: how they log in, what helm makes of them, and their accounts."""
