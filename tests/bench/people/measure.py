"""All figures of users, in a temporary folder. Needs root, because the daemons change their user."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from demo.person import Key
from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.people import accounts, logins, releases


def measure(asked: Asked) -> list[report.Figure]:
    """Measure with a thousand users; a quick run with a hundred."""
    sizes = logins.Sizes(people=100, cold=3, warm=5) if asked.quick else logins.Sizes()
    with tempfile.TemporaryDirectory(prefix="sunkpy-people-") as name:
        folder = Path(name)
        key = Key(folder / "key")
        (folder / "accounts").mkdir()
        return [
            *logins.measure(folder / "logins", key, sizes),
            *releases.measure(key, people=sizes.people, rounds=1 if asked.quick else 3),
            *asyncio.run(accounts.measure(folder / "accounts", key, people=sizes.people)),
        ]
