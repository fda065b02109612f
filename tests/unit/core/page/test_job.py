import msgspec

from sunkpy.core.explain.explanation import render
from sunkpy.core.overview.queue import find_queue
from sunkpy.core.page.job import explain_job
from tests.unit.core.overview.test_pool import running
from tests.unit.core.page.test_tables import NOW, waiting


def test_a_job_that_waits_says_its_place_what_for_and_until_when():
    job = msgspec.structs.replace(waiting(20, 5), starts_s=int(NOW.timestamp()) + 60, gpus=8)
    (row,) = find_queue([job], (), {}, NOW.timestamp())
    assert render(explain_job(job, row, name=job.name)).splitlines() == [
        "Slurm job 20 waits in the queue", "",
        "name            train",
        "whose           ann, account (none), partition low, QoS (none)",
        "asks for        0 nodes, 8 GPUs",
        "place in queue  1, with priority 5, since 2026-11-20T11:59:00Z",
        "because         other jobs come first (Priority)",
        "Slurm expects   a start at 2026-11-20T12:01:00Z", "",
        "what to do      Nothing: it starts in its turn; scontrol show job 20 says more.",
    ]  # fmt: skip


def test_a_job_that_never_starts_says_what_to_do():
    job = waiting(20, 0)
    job = msgspec.structs.replace(job, row=msgspec.structs.replace(job.row, reason="JobHeldUser"))
    (row,) = find_queue([job], (), {}, 0)
    text = render(explain_job(job, row, name=job.name))
    assert text.startswith("Slurm job 20 stays in the queue until somebody changes something")
    assert text.endswith("Release it: scontrol release 20.")


def test_a_job_with_nodes_says_which():
    text = render(explain_job(running(12, {"n1": 4, "n2": 1}), None, name=""))
    assert text.startswith("Slurm job 12 is RUNNING")
    assert "nodes           n[1-2]" in text
