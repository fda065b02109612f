"""How tests run: the same on an idle machine and on a busy one. What must be fast is measured by benches."""

from __future__ import annotations

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import attempts
from tests.minutes import Minutes

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("sunkpy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sunkpy")

# What is logged is seen when a test fails. With the values of all variables, a traceback costs seconds.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S.%f"),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", metavar="NAME", help="write where the minutes go, under this name")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(attempts)
    if name := config.getoption("--minutes"):
        config.pluginmanager.register(Minutes(name))
