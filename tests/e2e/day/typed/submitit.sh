# source: submitit, facebookincubator.github.io/submitit
# does: run Python functions as jobs with submitit: `submit`, `map_array`, results, and an exception with its traceback
# needs: software
# limit: 120
# says: 12 in job \d+
# says: \[1, 4, 9\]
# says: ZeroDivisionError: division by zero
cat > run.py <<'END'
import os
import submitit

def add(a, b):
    return a + b, os.environ["SLURM_JOB_ID"]

executor = submitit.AutoExecutor(folder="logs/%j")
executor.update_parameters(timeout_min=2, mem_gb=0.2, slurm_partition="low", slurm_array_parallelism=2)
job = executor.submit(add, 5, 7)
total, number = job.result()
assert number == job.job_id
print(total, "in job", number)
print([each.result() for each in executor.map_array(lambda n: n * n, [1, 2, 3])])
try:
    executor.submit(lambda: 1 / 0).result()
except submitit.core.utils.FailedJobError as error:
    print(next(line for line in str(error).splitlines() if "ZeroDivisionError" in line))
END
. ~/software/env
python3 run.py
