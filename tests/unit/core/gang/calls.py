"""What something costs on any machine."""

import sys


def counted(function, *args):
    """The result, and how many functions were called for it."""
    calls = 0

    def count(_frame, event, _arg):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        result = function(*args)
    finally:
        sys.setprofile(None)
    return result, calls
