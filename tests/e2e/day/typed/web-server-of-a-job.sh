# source: NERSC, docs.nersc.gov/services/jupyter; CSC, docs.csc.fi/computing/running/interactive-usage
# does: start a web server in a job on a port of its node, and reach it from the laptop with `ssh -N -L PORT:NODE:PORT`
# at: laptop
# says: from a job
job=$(ssh cluster "mkdir -p web.$$; echo from a job > web.$$/index.html; cd web.$$; sbatch --parsable --time=5 --output=/dev/null --wrap='python3 -m http.server 8899'")
until node=$(ssh cluster "squeue --noheader --states=RUNNING --job=$job --format=%N") && [ -n "$node" ]; do sleep 0.5; done
port=$(shuf -i 10000-29999 -n 1)
ssh -N -L $port:$node:8899 cluster &
until curl -fsS --noproxy '*' http://127.0.0.1:$port/ 2> /dev/null; do sleep 0.5; done
kill $!
ssh cluster "scancel $job; rm -r web.$$"
