"""How soon small pods and jobs start behind a long queue: by the chart's SchedulerParameters, by Slurm's defaults."""
