"""What everybody else in a cluster costs the pods of this scheduler: on simulated nodes, without a cluster."""
