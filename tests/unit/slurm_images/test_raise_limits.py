"""raise-limits gives what starts beside slurmd the limits of Slurm's own unit, as far as the container may."""

import resource
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "raise-limits"
SHOW = f"{SCRIPT.read_text()}\necho $(ulimit -Ss) $(ulimit -Hs) $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Sl) $(ulimit -Hl)"
"""As text: who runs it may not enter every folder in which a checkout is."""
NOBODY = 65534


def limits(**hard: int) -> tuple[list[str], str]:
    """Soft and hard limits of stack, open files and locked memory, and what raise-limits says, for a user who may raise
    no hard limit.
    """

    def lower() -> None:
        for name, most in hard.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (64, most))

    done = subprocess.run(
        ["bash", "-ec", SHOW], preexec_fn=lower, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split(), done.stderr


def test_what_the_container_allows_is_raised_and_what_it_does_not_is_named():
    found, said = limits(NOFILE=1000, MEMLOCK=8 * 2**20)
    assert found == ["unlimited", "unlimited", "1000", "1000", "8192", "8192"]
    assert said == (
        "raise-limits: jobs and sessions have lower limits here than on bare metal, ulimit -l is at most 8192, "
        "ulimit -n is at most 1000\n"
    )
