"""The answers of `kubectl sunk` about the pool: its nodes, the queue, drains, history, jobs, and what works.

Pure functions turn what was read into an answer. Each answer is a frozen struct: `-o json` prints it, and other
functions turn it into tables of text for people.
"""
