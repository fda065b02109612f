# source: Open MPI, docs.open-mpi.org/en/main/launching-apps/slurm.html
# does: compile with `mpicc`, and start `mpirun` in a job of two nodes; it starts its daemons with srun
# needs: software
# limit: 120
# says: 4 ranks on 2 nodes
cat > ring.c <<'END'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  char name[64] = "", first[64];
  int rank, size, length, other, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Get_processor_name(name, &length);
  memcpy(first, name, sizeof first);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  other = strcmp(first, name) != 0;
  MPI_Reduce(&other, &sum, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks on %d nodes\n", size, sum + 1);
  MPI_Finalize();
}
END
cat > ring.job <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --mem=500
#SBATCH --time=2
. ~/software/env
mpicc.openmpi -o ring ring.c
mpirun.openmpi -x LD_LIBRARY_PATH ./ring
END
sbatch --wait --output=said ring.job > /dev/null || { cat said; exit 1; }
grep ranks said || cat said
