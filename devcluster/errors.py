"""The error of this package. Its text says what was tried, on what, and what to do next."""


class DevclusterError(Exception):
    """An error that a person can act on; the command line prints it without a traceback."""
