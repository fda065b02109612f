"""The one error of this package: what was tried, on what, and what to do next."""


class DevclusterError(Exception):
    """Something a person can act on; the command line prints it without a traceback."""
