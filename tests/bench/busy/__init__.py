"""How soon small pods and jobs start behind a long queue, with the chart's SchedulerParameters and with Slurm's
defaults.
"""
