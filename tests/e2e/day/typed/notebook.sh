# source: NERSC, docs.nersc.gov/services/jupyter; Jupyter, jupyter-server.readthedocs.io/en/latest/operators/public-server.html
# does: start `jupyter server` in a job, open it from the laptop through `ssh -N -L PORT:NODE:PORT`, and start a kernel; without the token nobody gets in
# at: laptop
# needs: software
# limit: 180
# says: 403
# says: "name": ?"python3"
job=$(ssh cluster '. ~/software/env; sbatch --parsable --time=10 --mem=1G --output=/dev/null --wrap="jupyter server --ip=0.0.0.0 --port=8888 --no-browser --IdentityProvider.token=of-this-notebook"')
until node=$(ssh cluster "squeue --noheader --states=RUNNING --job=$job --format=%N") && [ -n "$node" ]; do sleep 0.5; done
ssh -N -L 18888:$node:8888 cluster &
get() { curl -sS --noproxy '*' -H "Authorization: token ${TOKEN:-of-this-notebook}" "$@"; }
until get -f http://127.0.0.1:18888/api/status > /dev/null 2>&1; do sleep 0.5; done
TOKEN=wrong get -o /dev/null -w '%{http_code}\n' http://127.0.0.1:18888/api/status
get -X POST http://127.0.0.1:18888/api/kernels | grep -o '"name": *"python3"'
kill $!
ssh cluster scancel $job
