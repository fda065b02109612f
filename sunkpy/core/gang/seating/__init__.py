"""Finds which pod of a gang has which seat (its room in the gang's job), and on which node of the job."""
