"""Which member of a gang has which seat, and on which node of the job."""
