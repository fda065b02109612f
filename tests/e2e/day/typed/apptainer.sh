# source: ULHPC, hpc-docs.uni.lu/jobs/dependencies (`apptainer run image.sif`)
# does: Apptainer in a job
# cannot: jobs get no namespaces of their own: `srun --container-image`, docs/tasks/containers-for-jobs.md
