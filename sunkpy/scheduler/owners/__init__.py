"""What stands above pods: watched, read and suspended."""
