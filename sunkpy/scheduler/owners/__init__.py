"""Watches, reads and suspends the owners of pods, such as Jobs, and the owners of these owners."""
