"""The page as the chart installs it, through its Service: who is let in, and whose jobs they see there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import httpx
import msgspec
import pytest

from demo import person
from demo.bring_up import PAGE_PORT
from demo.stack import Stack
from devcluster.waiting import NotYet, wait_until_equal
from tests.e2e.callers import token_of
from tests.e2e.processes import pods_of

pytestmark = pytest.mark.e2e

VIEWER = "e2e-viewer"


class Page(msgspec.Struct, frozen=True):
    """The page; a job of Ann's, and one of everybody's in the login pod; what `my-page` prints for both of them."""

    client: httpx.Client
    jobs: dict[str, str]
    links: dict[str, str]

    def ask(self, token: str, path: str = "/api/page") -> tuple[int, str]:
        """Status and text of an answer."""
        answer = self.client.get(path, headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.text

    def waiting(self, token: str) -> set[str]:
        """The jobs that wait, as this token's bearer sees them.

        Raises:
            NotYet: the bearer is refused, as while the apiserver does not know of their right.
        """
        status, text = self.ask(token)
        if status != httpx.codes.OK:
            raise NotYet(text)
        return {job for job, _ in msgspec.json.decode(text)["tables"].get("waiting", {"set": ()})["set"]}


@pytest.fixture
def page(stack: Stack) -> Iterator[Page]:
    with person.logged_in(stack) as ann, person.forwarded(stack, "page", 80) as port:
        shells = {person.NAME: ann, "user1": stack.login}
        jobs = {name: shell("sbatch --parsable --hold --wrap true").strip() for name, shell in shells.items()}
        links = {name: shell("my-page").strip() for name, shell in shells.items()}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
            yield Page(client, jobs=jobs, links=links)
        stack.cancel_jobs([int(job) for job in jobs.values()])


@pytest.fixture
def viewer(stack: Stack) -> Iterator[str]:
    """Token of an account that may get NodeSets, and nothing else."""
    where, account = ("-n", stack.namespace), f"--serviceaccount={stack.namespace}:{VIEWER}"
    stack.kubectl("create", "serviceaccount", VIEWER, *where)
    stack.kubectl("create", "role", VIEWER, *where, "--verb=get", "--resource=nodesets.sunkpy.dev")
    stack.kubectl("create", "rolebinding", VIEWER, *where, f"--role={VIEWER}", account)
    yield token_of(stack, VIEWER)
    for kind in ("rolebinding", "role", "serviceaccount"):
        stack.kubectl("delete", kind, VIEWER, *where)


def test_who_may_get_nodesets_sees_the_queue_and_others_are_refused(stack: Stack, page: Page, viewer: str) -> None:
    status, text = page.ask(token_of(stack, "default"))
    assert (status, "may not get nodesets in namespace" in text) == (403, True), text
    assert page.ask(f"{viewer}x")[0] == 401
    wait_until_equal(lambda: page.waiting(viewer), set(page.jobs.values()), timeout_s=20, what="the queue of all")
    head = msgspec.json.decode(page.ask(viewer)[1])["tables"]["head"]["set"][0][1]
    assert "unread" not in head, "the rights of the chart suffice"
    (pod,) = pods_of(stack, "page")
    told = stack.kubectl("logs", pod.name, "-n", stack.namespace, "-c", "page", "--since=1m").splitlines()
    assert [line for line in told if '"level": "info"' not in line] == []


def test_who_opens_the_link_of_my_page_sees_their_own_jobs(page: Page) -> None:
    tokens = {}
    for name, link in page.links.items():
        address, _, tokens[name] = link.partition("/#slurm=")
        assert address == f"http://localhost:{PAGE_PORT}"
    for name, token in tokens.items():
        wait_until_equal(partial(page.waiting, token), {page.jobs[name]}, timeout_s=20, what=f"the queue of {name}")
        found = {whose: page.ask(token, f"/api/explain/job/{job}")[0] for whose, job in page.jobs.items()}
        assert found == {whose: 200 if whose == name else 404 for whose in page.jobs}
