"""NodeSets: which nodes get a slurmd pod, under which name, and how a pod safely goes again.

decide       one pass: World → Plan
survey       which nodes may carry a pod, which pods may stay (rules: feasibility)
removal      how a pod goes, and why it does not go under a running job (protection: how others are kept from it)
rollout      which outdated pods a rolling update takes next
creation     which nodes get a pod now (naming: its name; slurmd_pod: its body)
status       what the NodeSet says of itself
node_side    what pod and Node tell each other
"""
