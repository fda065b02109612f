"""What the page shows: tables of rows by key, built once for all viewers, filtered for each, sent as differences.

No decision is here: rows are what `core.overview` finds, words what `core.explain` says.
"""
