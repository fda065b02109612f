# source: NERSC, docs.nersc.gov/development/languages/python
# does: `conda create`
# cannot: the test has no way to conda's channels; `python3 -m venv` runs
