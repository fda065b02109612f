"""Pods and jobs made to hurt others, and what the others notice of it."""
