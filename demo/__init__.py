"""The demo: shows and checks on a real cluster what a user can do with sunkpy (`python -m demo`).

`bring_up` starts the cluster, the images and both charts, and makes a `Stack`; `story` has the steps; `report` prints
and stores their results. The end-to-end tests and the benches use the same `Stack`.
"""
