"""How much other users' pods and objects slow down the pods of this scheduler, on simulated nodes."""
