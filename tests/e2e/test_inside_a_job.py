"""What a job finds does not depend on the door it came by: docs/reference/inside-a-job.md, on a real cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypedDict

import httpx
import pytest
import yaml

from demo import person
from demo.person import Say
from demo.stack import Stack
from tests.e2e.slurm_access import rest_url

pytestmark = pytest.mark.e2e


class Row(TypedDict):
    """What inside_a_job.yaml says of a thing, as far as this test needs it."""

    probe: str
    says: str
    bare: str


ROWS: Final[Mapping[str, Row]] = yaml.safe_load(Path(__file__).with_name("inside_a_job.yaml").read_text())
FOLDER: Final = "inside"
NODES: Final = 2
MEMORY_MIB: Final = 128
SIZE: Final = f"--nodes={NODES} --ntasks-per-node=1 --mem={MEMORY_MIB} --time=2"
MARK: Final = "---- "
PROBE: Final = "\n".join(f"echo '{MARK}{name}'; {{ {row['probe']}\n}} 2>&1" for name, row in ROWS.items())


def _by_sbatch(say: Say, stack: Stack) -> None:
    say(f"cd {FOLDER}; sbatch --wait {SIZE} --output=said probe")


def _by_srun(say: Say, stack: Stack) -> None:
    say(f"cd {FOLDER}; srun {SIZE} bash -c '[ $SLURM_PROCID != 0 ] || bash probe' > said")


def _from_a_job(say: Say, stack: Stack) -> None:
    say(f"cd {FOLDER}; sbatch --wait --mem=16 --output=outer --wrap='sbatch --wait {SIZE} --output=said probe'")


def _by_rest(say: Say, stack: Stack, *, first_line: str = "#!/bin/bash") -> None:
    user, folder = say("id -un"), say(f"cd {FOLDER}; pwd")
    token = say("scontrol token lifespan=60").removeprefix("SLURM_JWT=")
    headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token}
    job = {
        "name": "probe", "nodes": str(NODES), "tasks_per_node": 1,
        "time_limit": {"set": True, "number": 2}, "memory_per_node": {"set": True, "number": MEMORY_MIB},
        "current_working_directory": folder, "standard_output": f"{folder}/said",
        "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
    }  # fmt: skip
    with httpx.Client(base_url=rest_url(stack), headers=headers, timeout=30, trust_env=False) as client:
        newest = max(path for path in client.get("/openapi/v3").json()["paths"] if path.endswith("/job/submit"))
        told = client.post(newest, json={"script": f"{first_line}\n{PROBE}", "job": job})
    assert told.status_code == httpx.codes.OK, told.text
    stack.wait_for_job(told.json()["job_id"], "COMPLETED", "FAILED")


def _by_rest_in_a_login_shell(say: Say, stack: Stack) -> None:
    _by_rest(say, stack, first_line="#!/bin/bash -l")


WAYS: Final[Sequence[tuple[str, Callable[[Say, Stack], None]]]] = (
    ("ssh", _by_sbatch),
    ("ssh", _by_srun),
    ("ssh", _from_a_job),
    ("ssh", _by_rest),
    ("ssh", _by_rest_in_a_login_shell),
    ("kubectl exec", _by_sbatch),
    ("kubectl exec", _by_srun),
)
"""Each door: where the person is, and how they submit."""


@contextmanager
def at_the_doors(stack: Stack) -> Iterator[Mapping[str, Say]]:
    """Shells of those who come by ssh, and by kubectl, while the block lasts."""
    with person.logged_in(stack) as ann:
        yield {"ssh": ann, "kubectl exec": lambda script: stack.login(script).strip()}


@pytest.fixture(scope="module")
def people(stack: Stack) -> Iterator[Mapping[str, Say]]:
    with at_the_doors(stack) as shells:
        yield shells


@pytest.mark.parametrize(("way", "submit"), WAYS)
def test_a_job_finds_what_the_page_says(
    stack: Stack, people: Mapping[str, Say], way: str, submit: Callable[[Say, Stack], None]
) -> None:
    assert differs(stack, people[way], submit) == ""


def differs(
    stack: Stack, say: Say, submit: Callable[[Say, Stack], None], *, cpus: int = 1, virtual_percent: int = 0
) -> str:
    """What a job finds that is not as the page says, a line for each. `virtual_percent` is VSizeFactor."""
    say(f"mkdir -p {FOLDER}; cat > {FOLDER}/probe <<'END'\n#!/bin/bash\n{PROBE}\nEND")
    try:
        submit(say, stack)
        said = say(f"cat {FOLDER}/said")
    finally:
        say(f"rm -r {FOLDER}")
    wanted = _wanted(stack, say, cpus=cpus, virtual_percent=virtual_percent, is_bare=submit is _by_rest)
    found = dict(part.strip().split("\n", 1) for part in said.split(MARK)[1:])
    wrong = [name for name, pattern in wanted.items() if not re.fullmatch(pattern, found[name])]
    return "".join(f"\n{name}: {found[name]!r}, not {wanted[name]!r}" for name in wrong)


def _wanted(stack: Stack, say: Say, *, cpus: int, virtual_percent: int, is_bare: bool) -> Mapping[str, str]:
    """Pattern of each row, for who has this shell."""
    slurmd = stack.slurmd_pods()[0].name
    of_slurmd = ("exec", "-n", stack.namespace, slurmd, "-c", "slurmd", "--", "bash", "-c")
    limits = stack.kubectl(
        *of_slurmd, f"{ROWS['limits']['probe'].rsplit(' ', 1)[0]} /proc/$(pgrep -x slurmd | head -n 1)/limits"
    ).strip()
    if virtual_percent:
        virtual = (MEMORY_MIB << 20) * virtual_percent // 100
        limits = re.sub(r"(Max address space +)(unlimited +){2}", rf"\g<1>{virtual:<20} {virtual:<20} ", limits)
    total = re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())
    assert total
    user, groups, home = say('id -un; id -Gn; echo "$HOME"').splitlines()
    facts = {
        "user": user, "groups": groups, "home": home, "folder": f"{home}/{FOLDER}", "nodes": NODES, "cpus": cpus,
        "memory_mib": MEMORY_MIB, "limits": re.escape(limits),
        "shm_kib": -(-int(total[1]) // 8) * 4,  # in pages of 4 KiB
    }  # fmt: skip
    return {name: row["bare" if is_bare and "bare" in row else "says"].format(**facts) for name, row in ROWS.items()}
