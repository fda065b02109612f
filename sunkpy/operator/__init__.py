"""The operator: NodeSets to slurmd pods, and slurmd pods to Nodes. The only part that writes Nodes.

main → term            the process; one term of leadership
loop                   key → collect → decide (core.nodeset) → execute; which change wakes which key
collect                one value for a key, out of feed, watches, pod_index and memory
execute, create        actions become writes of slurmd pods and NodeSets
status_writer          status and Events of NodeSets
node_writer            Nodes
"""
