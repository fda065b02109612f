# source: Open MPI, docs.open-mpi.org/en/main/tuning-apps/networking
# does: ranks over InfiniBand (`UCX_NET_DEVICES`, `ibstat`)
# cannot: no fabric; over TCP it runs
