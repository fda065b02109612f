# source: CSC, docs.csc.fi/computing/running/example-job-scripts
# does: compile a program with OpenMP in the login pod, and run it in a job with `--cpus-per-task` and `OMP_NUM_THREADS`
# says: 2 threads
cat > threads.c <<'END'
#include <omp.h>
#include <stdio.h>
int main(void) {
#pragma omp parallel
#pragma omp single
  printf("%d threads\n", omp_get_num_threads());
}
END
gcc -fopenmp -o threads threads.c
cat > threads.job <<'END'
#!/bin/bash
#SBATCH --ntasks=1 --cpus-per-task=2 --time=1
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
srun --cpus-per-task=$SLURM_CPUS_PER_TASK ./threads
END
sbatch --wait --output=said threads.job > /dev/null
cat said
