"""What the web page shows: tables of rows, built once for all viewers, filtered for each viewer, sent as changes.

`core.overview` finds the rows, and `core.explain` writes the explanations; nothing is decided here.
"""
