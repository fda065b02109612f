# source: NERSC, docs.nersc.gov/development/languages/python
# does: make a Python environment with `python3 -m venv` in the home, and use it in a job
# says: /home/ann/\S+/env
python3 -m venv env
source env/bin/activate
sbatch --wait --output=said --wrap='python -c "import sys; print(sys.prefix)"' > /dev/null
cat said
