"""What a job finds does not depend on the door it came by: docs/reference/inside-a-job.md, on a real cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

import httpx
import pytest
import yaml

from demo import person, slurm_text
from demo.person import Say
from demo.stack import Stack
from tests.e2e.slurm_access import rest_url

pytestmark = pytest.mark.e2e


class Row(TypedDict):
    """What inside_a_job.yaml says of a thing, as far as this test needs it."""

    probe: str
    says: str
    bare: str
    with_gpu: str


class Asks(NamedTuple):
    """What a job asks for: options of sbatch and srun, and the same as fields of a request to slurmrestd."""

    options: str
    fields: Mapping[str, object]
    has_gpu: bool = False


ROWS: Final[Mapping[str, Row]] = yaml.safe_load(Path(__file__).with_name("inside_a_job.yaml").read_text())
FOLDER: Final = "inside"
NODES: Final = 2
MEMORY_MIB: Final = 128
SIZE: Final = f"--nodes={NODES} --ntasks-per-node=1 --time=2"
MEMORY: Final = Asks(f"--mem={MEMORY_MIB}", {"memory_per_node": {"set": True, "number": MEMORY_MIB}})
GPU: Final = Asks("--gres=gpu:1", {"tres_per_node": "gres/gpu:1"}, has_gpu=True)
"""It names no memory, so it gets a share of the node's memory."""
JOBS_S: Final = 300.0
"""How long a job and the job that submits it may take: two minutes each by their limit, and the way there and back."""
MARK: Final = "---- "
PROBE: Final = "\n".join(f"echo '{MARK}{name}'; {{ {row['probe']}\n}} 2>&1" for name, row in ROWS.items())


def _by_sbatch(say: Say, stack: Stack, asks: Asks) -> None:
    say(f"cd {FOLDER}; sbatch --wait {SIZE} {asks.options} --output=said probe")


def _by_srun(say: Say, stack: Stack, asks: Asks) -> None:
    say(f"cd {FOLDER}; srun {SIZE} {asks.options} bash -c '[ $SLURM_PROCID != 0 ] || bash probe' > said")


def _from_a_job(say: Say, stack: Stack, asks: Asks, *, outer: str = "--mem=16") -> None:
    inner = f"sbatch --wait {SIZE} {asks.options} --output=said probe"
    say(f"cd {FOLDER}; sbatch --wait {outer} --output=outer --wrap='{inner}'")


def _from_a_job_with_a_gpu(say: Say, stack: Stack, asks: Asks) -> None:
    _from_a_job(say, stack, asks, outer="--mem=16 --gres=gpu:1")


def _by_rest(say: Say, stack: Stack, asks: Asks, *, first_line: str = "#!/bin/bash") -> None:
    user, folder = say("id -un"), say(f"cd {FOLDER}; pwd")
    token = say("scontrol token lifespan=60").removeprefix("SLURM_JWT=")
    headers = {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token}
    job = {
        "name": "probe", "nodes": str(NODES), "tasks_per_node": 1, "time_limit": {"set": True, "number": 2},
        "current_working_directory": folder, "standard_output": f"{folder}/said",
        "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"], **asks.fields,
    }  # fmt: skip
    with httpx.Client(base_url=rest_url(stack), headers=headers, timeout=30, trust_env=False) as client:
        newest = max(path for path in client.get("/openapi/v3").json()["paths"] if path.endswith("/job/submit"))
        told = client.post(newest, json={"script": f"{first_line}\n{PROBE}", "job": job})
    assert told.status_code == httpx.codes.OK, told.text
    stack.wait_for_job(told.json()["job_id"], "COMPLETED", "FAILED")


def _by_rest_in_a_login_shell(say: Say, stack: Stack, asks: Asks) -> None:
    _by_rest(say, stack, asks, first_line="#!/bin/bash -l")


Submit = Callable[[Say, Stack, Asks], None]
WAYS: Final[Sequence[tuple[str, Submit]]] = (
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
    with person.logged_in(stack, timeout_s=JOBS_S) as ann:
        yield {"ssh": ann, "kubectl exec": lambda script: stack.login(script, timeout_s=JOBS_S).strip()}


@pytest.fixture(scope="module")
def people(stack: Stack) -> Iterator[Mapping[str, Say]]:
    with at_the_doors(stack) as shells:
        yield shells


@pytest.mark.parametrize("asks", [MEMORY, GPU], ids=["without GPUs", "with a GPU"])
@pytest.mark.parametrize(("way", "submit"), WAYS)
def test_a_job_finds_what_the_page_says(
    stack: Stack, people: Mapping[str, Say], way: str, submit: Submit, asks: Asks
) -> None:
    assert differs(stack, people[way], submit, asks) == ""


def test_a_job_without_gpus_from_a_job_with_one_finds_none(stack: Stack, people: Mapping[str, Say]) -> None:
    assert differs(stack, people["ssh"], _from_a_job_with_a_gpu, MEMORY) == ""


def test_kubectl_says_why_a_job_sees_processes_of_other_jobs(stack: Stack) -> None:
    why = "slurmConfig.privatePids: false" if _are_held(stack) else "slurmConfig.cgroup: disabled"
    told = stack.kubectl("describe", "nodeset", stack.nodeset, "-n", stack.namespace)
    assert f"the jobs of a node share process ids, because of {why}: each job sees the processes" in told


def differs(
    stack: Stack, say: Say, submit: Submit, asks: Asks = MEMORY, *, cpus: int = 1, virtual_percent: int = 0
) -> str:
    """What a job finds that is not as the page says, a line for each. `virtual_percent` is VSizeFactor."""
    say(f"mkdir -p {FOLDER}; cat > {FOLDER}/probe <<'END'\n#!/bin/bash\n{PROBE}\nEND")
    try:
        submit(say, stack, asks)
        said = say(f"cat {FOLDER}/said")
    finally:
        say(f"rm -r {FOLDER}")
    facts = _facts(stack, say, asks, cpus=cpus, virtual_percent=virtual_percent)
    is_bare = submit is _by_rest
    wanted = {name: _pattern(row, asks, is_bare=is_bare).format(**facts) for name, row in ROWS.items()}
    found = dict(part.strip().split("\n", 1) for part in said.split(MARK)[1:])
    wrong = [name for name, pattern in wanted.items() if not re.fullmatch(pattern, found[name])]
    return "".join(f"\n{name}: {found[name]!r}, not {wanted[name]!r}" for name in wrong)


def _pattern(row: Row, asks: Asks, *, is_bare: bool) -> str:
    if asks.has_gpu and "with_gpu" in row:
        return row["with_gpu"]
    return row["bare" if is_bare and "bare" in row else "says"]


def _facts(stack: Stack, say: Say, asks: Asks, *, cpus: int, virtual_percent: int) -> Mapping[str, object]:
    """What is known of the person, of a job of theirs and of the nodes."""
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
    nodes = stack.slurm_nodes().values()
    return {
        "user": user, "groups": groups, "home": home, "folder": f"{home}/{FOLDER}", "nodes": NODES, "cpus": cpus,
        "memory_mib": _share_mib(nodes) if asks.has_gpu else MEMORY_MIB, "limits": re.escape(limits),
        "shm_kib": -(-int(total[1]) // 8) * 4,  # in pages of 4 KiB
        "gpu_files": _gpu_files(nodes, int(asks.has_gpu), are_held=_are_held(stack)),
    }  # fmt: skip


def _are_held(stack: Stack) -> bool:
    """True if cgroups hold jobs to what Slurm gave them."""
    return "proctrack/cgroup" in stack.scontrol("show", "config")


def _gpus(node: Mapping[str, str]) -> int:
    return slurm_text.gres_count(node["Gres"], "gpu")


def _share_mib(nodes: Iterable[Mapping[str, str]]) -> int:
    """The memory of a node that belongs to each of its GPUs, on the node with the least."""
    return min(int(node["RealMemory"]) // _gpus(node) for node in nodes if _gpus(node))


def _gpu_files(nodes: Iterable[Mapping[str, str]], asked: int, *, are_held: bool) -> str:
    """A pattern of what the probe counts on any of the nodes: files of GPUs, and those that the job may not open."""
    counts = sorted({_gpus(node) for node in nodes if _gpus(node) >= asked})
    return "|".join(f"{count} files, {count - asked if are_held else 0} refused" for count in counts)
