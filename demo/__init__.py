"""The story of sunkpy, told and checked on a real cluster: `python -m demo`.

`stack` brings the cluster, the images and both charts up; `story` is the seven steps; `report` shows and keeps what
came of them. The end-to-end tests and the benches stand on the same `Stack`.
"""
