"""Which member of a gang sits on which node of its job."""
