"""A test that is tried again begins anew: what its failed attempt left open is closed, and is nobody's fault.

With `-W error` it would fail the next attempt, or the whole run at its end: the traceback of a failure holds open
files of the test, which so close when nobody expects it.
"""

from __future__ import annotations

import gc
import sys
import warnings

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """pytest-rerunfailures counts attempts from 1."""
    if getattr(item, "execution_count", 1) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("last_exc", "last_type", "last_value", "last_traceback"):
                vars(sys).pop(name, None)
            gc.collect()
