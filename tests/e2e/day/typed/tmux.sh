# source: CSC, docs.csc.fi/computing/connecting
# does: start `srun` in `tmux`, and leave the terminal: the step goes on
# says: still on compute-\d+-\d+
tmux new-session -d -s work 'srun --time=1 bash -c "sleep 2; echo still on \$(hostname)" > said'
sleep 1
tmux list-sessions > /dev/null
until grep -s still said; do sleep 0.5; done
