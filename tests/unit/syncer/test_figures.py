"""The figures of Slurm as the syncer shows them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.figures import FigureFeed, Read
from sunkpy.syncer.settings import FigureSettings
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd


class Counted:
    """A Slurm with two nodes and a job, and a clock that a test sets."""

    def __init__(self, client: Slurm, slurm: Slurmrestd) -> None:
        self.client, self.slurm, self.now_s = client, slurm, 100.0
        self.nodes = NodeCache(client)
        for name in ("n1", "n2"):
            slurm.put(name, "IDLE", cpus=4, effective_cpus=4)
        slurm.add_job("RUNNING", comment="", user="ann")

    def feed(self, **settings: float) -> FigureFeed:
        wanted = FigureSettings(**settings)  # type: ignore[arg-type]
        return FigureFeed(self.client, self.nodes, wanted, scheduler_user="k8s", clock=lambda: self.now_s)


@pytest.fixture
async def counted(tmp_path) -> AsyncIterator[Counted]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    slurm = Slurmrestd()
    async with serving(slurm.app()) as port:
        settings = SlurmSettings(url=f"http://127.0.0.1:{port}", version="v0.0.45", jwt_key_file=str(key))
        client = Slurm.connect(settings)
        yield Counted(client, slurm)
        await client.close()


def figures(feed: FigureFeed) -> dict[tuple[str, str], float]:
    """The figures by name and values of the labels."""
    families = text_string_to_metric_families(feed.text.decode())
    return {(s.name, ",".join(s.labels.values())): s.value for family in families for s in family.samples}


async def test_nothing_is_shown_before_slurm_has_named_its_nodes(counted: Counted) -> None:
    feed = counted.feed()
    await feed.refresh()
    assert feed.text == b""


async def test_all_is_shown_from_one_read(counted: Counted) -> None:
    await counted.nodes.refresh()
    counted.slurm.licenses = [{"LicenseName": "matlab", "Total": 5, "Used": 2, "Free": 3, "Reserved": 1}]
    times = {"start_time": {"set": True, "number": 10}, "end_time": {"set": True, "infinite": True}}
    counted.slurm.reservations = [{"name": "class", "node_count": 2, **times}]
    feed = counted.feed()
    await feed.refresh()
    found = figures(feed)
    assert (found["slurm_jobs_running", ""], found["slurm_user_jobs_running", "ann"]) == (1, 1)
    assert (found["slurm_node_cpus_idle", "n2"], found["slurm_partition_jobs", "low"]) == (4, 1)
    assert [found[f"slurm_lic_{end}", "matlab"] for end in ("total", "used", "free", "reserved")] == [5, 2, 3, 1]
    of_class = [found[f"sunkpy_reservation_{end}", "class"] for end in ("nodes", "start_seconds", "end_seconds")]
    assert of_class == [2, 10, 0]
    assert found["sunkpy_figures_jobs_unread", ""] == 0
    asked = len(counted.slurm.requests)
    assert feed.text
    assert len(counted.slurm.requests) == asked, "a scrape asks nobody"


async def test_a_job_that_starts_and_a_node_that_drains_add_up(counted: Counted) -> None:
    def at(second: int) -> dict[str, object]:
        return {"set": True, "number": second}

    counted.slurm.statistics = {"req_time": at(1000)}
    begun = {"account": "chem", "nodes": "n1", "eligible_time": at(950)}
    counted.slurm.add_job("RUNNING", comment="", user="ann", start_time=at(990), **begun)
    counted.slurm.put("n2", "IDLE", "DRAIN")
    await counted.nodes.refresh()
    feed = counted.feed()
    await feed.refresh()
    counted.slurm.add_job("RUNNING", comment="", user="ann", start_time=at(1010), **begun)
    counted.now_s += 30
    await feed.refresh()
    await feed.refresh()
    found = figures(feed)
    assert found["sunkpy_job_wait_seconds_count", "chem,low,Slurm"] == 1
    assert found["sunkpy_job_wait_seconds_sum", "chem,low,Slurm"] == 60
    assert found["sunkpy_node_drain_seconds_total", "n2,,drained"] == 30


async def test_fair_share_is_read_once_a_minute_and_its_absence_hides_nothing_else(counted: Counted) -> None:
    await counted.nodes.refresh()
    feed = counted.feed()
    await feed.refresh()
    assert ("slurm_jobs", "") in figures(feed)
    assert not [name for name, _ in figures(feed) if "fairshare" in name]
    ann = {"name": "ann", "parent": "chem", "type": ["USER"], "fairshare": {"factor": {"set": True, "number": 0.25}}}
    counted.slurm.shares = [ann]
    counted.now_s += 59
    await feed.refresh()
    assert counted.slurm.requests.count("GET shares") == 1
    counted.now_s += 1
    await feed.refresh()
    assert figures(feed)["slurm_user_fairshare", "chem,ann"] == 0.25


async def test_who_listens_hears_of_the_same_read(counted: Counted) -> None:
    await counted.nodes.refresh()
    feed, heard = counted.feed(), []

    async def listen(read: Read) -> None:
        heard.append([job.user for job in read.jobs or ()])

    feed.add_listener(listen)
    asked = len(counted.slurm.requests)
    await feed.refresh()
    alone = len(counted.slurm.requests) - asked
    feed = counted.feed()
    await feed.refresh()
    assert heard == [["ann"]]
    assert len(counted.slurm.requests) - asked == 2 * alone


@pytest.mark.parametrize(
    ("seconds", "took_s", "due_s", "soon_s"),
    [(30, 1, 29, 9), (30, 0.1, 29.9, 4.9), (2, 0.1, 1.9, 1.9), (30, 6, 54, 54)],
)
async def test_a_read_that_somebody_waits_for_comes_soon_and_once(
    counted: Counted, seconds: float, took_s: float, due_s: float, soon_s: float
) -> None:
    feed = counted.feed(seconds=seconds)
    assert feed.due_in_s(took_s) == due_s
    feed.read_soon()
    assert [feed.due_in_s(took_s) for _ in range(2)] == [soon_s, due_s]


async def test_before_all_jobs_were_read_once_their_figures_are_absent(counted: Counted) -> None:
    counted.slurm.add_job("PENDING", comment="", user="bob")
    await counted.nodes.refresh()
    feed = counted.feed(job_reads=1)
    await feed.refresh()
    found = figures(feed)
    assert found["sunkpy_figures_jobs_unread", ""] == 1
    assert ("slurm_jobs", "") not in found, "absent, not zero"
    assert ("slurm_node_cpus", "n1") in found
    await feed.refresh()
    assert figures(feed)["slurm_jobs", ""] == 2


async def test_what_the_limit_leaves_out_is_counted(counted: Counted) -> None:
    await counted.nodes.refresh()
    feed = counted.feed(series_per_name=1)
    await feed.refresh()
    found = figures(feed)
    assert {labels for name, labels in found if name == "slurm_node_cpus"} == {"n1"}
    assert (found["sunkpy_figures_series_cut", "slurm_node_cpus"], found["sunkpy_figures_series_limit", ""]) == (1, 1)


async def test_old_figures_are_not_shown(counted: Counted) -> None:
    await counted.nodes.refresh()
    feed = counted.feed(seconds=10)
    await feed.refresh()
    counted.slurm.is_down = True
    with pytest.raises(SlurmError):
        await feed.refresh()
    counted.now_s += 30
    assert feed.text
    counted.now_s += 1
    assert feed.text == b""
