"""How much is done for an answer: Python's own calls of functions, which no busy machine makes more."""

import sys


def calls_of(work):
    """The functions of sunkpy that are entered while it works, each time one is."""
    count = 0

    def enter(frame, event, _):
        nonlocal count
        count += event == "call" and "/sunkpy/" in frame.f_code.co_filename

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
