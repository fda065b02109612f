"""The pods that name this scheduler: which gang each is of, who else is on their nodes, and writes to them."""
