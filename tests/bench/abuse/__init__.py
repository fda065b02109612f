"""Pods and jobs that are made to hurt others, and what the others have of it."""
