"""The pool on one screen: nodes, the queue of jobs and pods, who drained what, and what works. Values in, rows and
words out.

Each answer is a frozen struct, which is what `-o json` shows, and gives tables of text for people.
"""
