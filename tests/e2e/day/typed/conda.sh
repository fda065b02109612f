# source: NERSC, docs.nersc.gov/development/languages/python
# does: make a Python environment with `conda create`
# cannot: the test cannot reach conda's channels; `python3 -m venv` runs
