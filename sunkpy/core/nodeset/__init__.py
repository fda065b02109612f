"""NodeSets: which nodes get a slurmd pod, under which name, and how a pod is removed safely.

decide       one decision: World (all that was read) → Plan (the next steps)
survey       which nodes may carry a pod, which pods may stay (rules: feasibility)
removal      how a pod is removed, and why not under a running job (protection: against deletion by others)
rollout      which outdated pods a rolling update takes next
creation     which nodes get a pod now (naming: its name; slurmd_pod: its manifest)
status       the status of a NodeSet: numbers, conditions, Events
node_side    what a slurmd pod shows on its Node, and a Node on its slurmd pod
"""
