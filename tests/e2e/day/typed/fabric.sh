# source: Open MPI, docs.open-mpi.org/en/main/tuning-apps/networking
# does: run MPI ranks over InfiniBand (`UCX_NET_DEVICES`, `ibstat`)
# cannot: the test nodes have no InfiniBand; the same ranks run over TCP
