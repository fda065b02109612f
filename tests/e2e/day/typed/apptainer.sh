# source: ULHPC, hpc-docs.uni.lu/jobs/dependencies (`apptainer run image.sif`)
# does: run an Apptainer image in a job
# cannot: a job gets no namespaces of its own; use `srun --container-image`, docs/tasks/containers-for-jobs.md
