"""Answers the HTTP calls of Prologs and Epilogs of Slurm. A Prolog or Epilog holds its node until the scheduler's pods
have been bound there, or have left.
"""
