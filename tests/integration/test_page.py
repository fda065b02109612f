"""The page in Debian's Chromium: a story as one sees it; nobody is shown or made to run what is another's."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.browser import chromium
from tests.page_ground import KEY, Pool, page_of

pytestmark = pytest.mark.integration
PICTURE = Path("docs/tasks/page.png")
GRAFANA = "https://grafana.example.com/d/research-demo-"
SCRIPT = "<script>window.ran = 1</script><img src=x onerror='window.ran = 1'>"


@pytest.fixture
def pool():
    pool = Pool(nodes=6)
    pool.free.sort()
    pool.run_pod("team", "web", "gpu-0001")
    pool.run_job("train", "ann", "gpu-0002")
    pool.api.people = {"of-ann": "ann"}
    pool.api.allowed = {("ann", "nodesets", "slurm"), ("ann", "pods", "other")}
    return pool


@asynccontextmanager
async def browser(pool, tmp_path, fragment=f"#key={KEY}", *, is_shared=False, dashboards="", **how):
    for name in ("page", "browser"):
        (tmp_path / name).mkdir()
    async with (
        page_of(pool, tmp_path / "page", is_shared=is_shared, every_s=0.2, dashboards=dashboards) as shown,
        chromium(tmp_path / "browser") as page,
    ):
        await page.open(f"{shown.url}/{fragment}", **how)
        yield page


async def sees(page, selector, text):
    """Waits until it stands there."""
    await page.until(f"document.querySelector({selector!r})?.innerText.includes({text!r})")


async def nothing_went_wrong(page):
    assert not page.heard["Runtime.exceptionThrown"]
    assert [each["entry"]["text"] for each in page.heard["Log.entryAdded"] if each["entry"]["level"] == "error"] == []


async def test_a_cordon_a_preemption_and_a_stuck_job_are_seen_as_they_happen(pool, tmp_path):
    async with browser(pool, tmp_path) as page:
        await sees(page, "#headline", "6 nodes (4 ready, 2 busy)")
        assert "key" not in await page.run("location.href")

        pool.api.change("nodes", "", "gpu-0003", {"spec": {"unschedulable": True}})
        pool.slurm.put("gpu-0003", "IDLE", "DRAIN", reason="k8s: cordon")
        await page.until("document.querySelector('#map a.drained.closed')")

        job = pool.slurm.add_job("PENDING", comment="", user="bob", name="urgent", state_reason="JobHeldUser")
        await sees(page, "#jobs", "urgent")
        await page.run(f"location.hash = '#job/{job}'")
        await sees(page, "#story", f"Release it: kubectl sunk jobs release {job}")

        pool.preempt("team", "web", 7, job, minutes=0)
        await sees(page, "#handovers", f"team/web (job 7) was preempted by job {job} (user bob, partition high)")
        assert "team/web" in await page.text("#news")
        strip = "document.querySelector('#strip svg').getAttribute('aria-label')"
        assert await page.run(strip) == "1 hand-over in the last hour; the list below names each"

        await page.run("location.hash = '#node/gpu-0003'")
        await sees(page, "#story", "kubectl uncordon gpu-0003")
        await nothing_went_wrong(page)


async def test_it_is_drawn_as_the_docs_show_it(tmp_path):
    """Shown by docs/tasks/page.md. With SUNKPY_DRAW set, drawn again: look at it."""
    pool, held = Pool(nodes=96, jobs=240), 144
    async with browser(pool, tmp_path, width=1440, height=520) as page:
        await page.until("document.querySelector('#map a')")
        await page.run(f"location.hash = '#job/{held}'")
        await sees(page, "#story", "What to do:")
        drawn = await page.picture()
        await nothing_went_wrong(page)
    compare(drawn)


def compare(drawn):
    if os.environ.get("SUNKPY_DRAW"):
        PICTURE.write_bytes(drawn)
    shown = PICTURE.read_bytes()
    assert drawn[:24] == shown[:24], "PNG of the same size"
    assert len(drawn) / 2 < len(shown) < 150_000


async def test_it_is_used_with_the_keyboard_alone_and_read_as_a_table(pool, tmp_path):
    async with browser(pool, tmp_path, width=390, height=800, dark=True) as page:
        await page.until("document.querySelector('#map a')")
        await page.run("document.querySelector('#map a').focus()")
        await press(page, "ArrowRight")
        await press(page, "Enter")
        await sees(page, "#detail-title", "node gpu-0002")
        await press(page, "Escape")
        await page.until("document.querySelector('#detail').hidden")
        await press(page, "/")
        await page.send("Input.insertText", text="gpu-0005")
        await page.until("document.querySelectorAll('#map a.dim').length === 5")
        await page.run("document.querySelector('#as-table').click()")
        assert "gpu-0005" in await page.text("#nodes tbody")
        assert await page.run("document.documentElement.scrollWidth <= 390"), "nothing is wider than the screen"
        labels = await page.run("[...document.querySelectorAll('#map a')].map((a) => a.getAttribute('aria-label'))")
        assert labels[1].startswith("gpu-0002: running jobs, Slurm ")
        await nothing_went_wrong(page)


async def press(page, key):
    text = {"Enter": "\r", "/": "/"}.get(key, "")
    await page.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
    await page.send("Input.dispatchKeyEvent", type="keyUp", key=key)


async def test_each_thing_leads_to_its_dashboard_in_grafana(pool, tmp_path):
    job = next(each["job_id"] for each in pool.slurm.jobs.values() if each["name"] == "train")
    async with browser(pool, tmp_path, dashboards=GRAFANA) as page:
        await page.until("document.querySelector('#grafana')?.hidden === false")
        assert await page.run("document.querySelector('#grafana').href") == f"{GRAFANA}pool"
        for hash, path in ((f"job/{job}", f"job?var-slurmjob={job}"), ("node/gpu-0002", "nodes?var-node=gpu-0002")):
            await page.run(f"location.hash = '#{hash}'")
            await page.until(f"document.querySelector('#story a')?.href === '{GRAFANA}{path}'")


async def test_script_in_what_others_write_is_text(pool, tmp_path):
    pool.slurm.put("gpu-0004", "IDLE", "DRAIN", reason=SCRIPT)
    job = pool.slurm.add_job("PENDING", comment="", user="bob", name=SCRIPT, account=SCRIPT, state_reason="Priority")
    pool.add_event("Node", "", "gpu-0004", "SlurmCordon", SCRIPT, minutes=1)
    pool.add_event("Pod", "team", "web", "PreemptionByScheduler", SCRIPT, minutes=1)
    async with browser(pool, tmp_path) as page:
        for selector in ("#jobs", "#changes", "#handovers"):
            await sees(page, selector, "<script>")
        for hash in (f"#job/{job}", "#node/gpu-0004"):
            await page.run(f"location.hash = '{hash}'")
            await sees(page, "#story", "<script>")
        await page.run("document.querySelector('#as-table').click()")
        await sees(page, "#nodes", "<script>")
        assert await page.run("window.ran === undefined && document.querySelectorAll('main script, img').length === 0")
        await nothing_went_wrong(page)


async def test_a_forged_token_shows_nothing_and_a_right_one_hides_others_pods(pool, tmp_path):
    async with browser(pool, tmp_path, "", is_shared=True) as page:
        await page.until("document.querySelector('#entry')?.hidden === false")
        await enter(page, "forged")
        await sees(page, "#refusal", "the token is not accepted: unknown token")
        assert await page.run("document.querySelector('main').hidden && !document.querySelector('#map a')")
        await enter(page, "of-ann")
        await page.until("document.querySelector('#map a.pods')")
        assert "web" not in await page.run("document.documentElement.outerHTML")
        await page.run("location.hash = '#pod/team/web'")
        await sees(page, "#story", "you may not get pods in namespace team")
        pool.add_event("Pod", "team", "web", "OwnerUnknown", "Job team/web is unknown", minutes=1)
        await sees(page, "#changes", "a pod OwnerUnknown")
        assert "Pod" not in await page.text("#changes"), "its kind is in the words"
        assert await page.run("document.cookie") == "", "no script reads the token"


async def enter(page, token):
    await page.run(f"document.querySelector('#token').value = {token!r}")
    await page.run("document.querySelector('#entry').requestSubmit()")
