# source: CSC, docs.csc.fi/computing/connecting
# does: `tmux` keeps `srun` after the terminal is gone
# says: still on compute-\d+-\d+
tmux new-session -d -s work 'srun --time=1 bash -c "sleep 2; echo still on \$(hostname)" > said'
sleep 1
tmux list-sessions > /dev/null
until grep -s still said; do sleep 0.5; done
