"""Runs pods as Slurm jobs.

pods, nodes (watch) ─┐
jobs (poll)          ├─▶ ledger ─▶ queue ─▶ reconcile: view → core.gang.decide → execute
prolog, epilog (HTTP)┘                                          │
         ▲                                                      ▼
         └──────────── answered when the view allows ◀── pods bound, evicted, gone
"""
