"""The answers of `kubectl sunk` about the pool: its nodes, queue, drains, history, jobs and backups, and the checks of
`doctor`.

Pure functions turn what was read into an answer. Each answer is a frozen struct: `-o json` prints it, and other
functions turn it into tables of text for people.
"""
