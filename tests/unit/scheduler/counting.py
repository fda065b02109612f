"""How much is done for an answer: Python's own calls of functions, which no busy machine makes more."""

import contextlib
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


def lines_of(work):
    """How many lines of sunkpy are run while it works: a loop in one line counts each time round."""
    count = 0

    def run(_, event, __):
        nonlocal count
        count += event == "line"
        return run

    sys.settrace(lambda frame, _, __: run if "/sunkpy/" in frame.f_code.co_filename else None)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


@contextlib.contextmanager
def entered(function):
    """Gives how often a function of sunkpy has been entered by anybody in this thread since the block began."""
    code, count = function.__code__, [0]

    def enter(frame, event, _):
        count[0] += event == "call" and frame.f_code is code

    sys.setprofile(enter)
    try:
        yield lambda: count[0]
    finally:
        sys.setprofile(None)
