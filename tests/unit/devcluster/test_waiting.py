import pytest

from devcluster.shell import CommandFailed
from devcluster.waiting import NeverSo, NotYet, persist, wait, wait_until, wait_until_none


def test_the_first_true_value_is_returned() -> None:
    values = iter([0, "", "pod-1"])
    assert wait(lambda: next(values), timeout_s=5, what="a pod", every_s=0) == "pod-1"


def test_a_command_that_fails_counts_as_not_yet() -> None:
    answers = iter([CommandFailed(["kubectl"], "failed", code=1, output="not found"), True])

    def check() -> bool:
        answer = next(answers)
        if isinstance(answer, CommandFailed):
            raise answer
        return bool(answer)

    assert wait(check, timeout_s=5, what="a pod", every_s=0)


def test_what_never_happens_is_told_with_the_state_seen_last() -> None:
    def check() -> bool:
        raise NotYet("2 of 3 Ready")

    with pytest.raises(NeverSo, match="3 pods: not so after 0 s; last seen: 2 of 3 Ready"):
        wait(check, timeout_s=0, what="3 pods", every_s=0)


def test_the_longer_it_waits_the_less_often_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    looks: list[float] = []
    monkeypatch.setattr("devcluster.waiting.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("devcluster.waiting.time.sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    assert wait_until(lambda: looks.append(clock[0]), timeout_s=60) is None
    assert sum(at_s < 1 for at_s in looks) >= 10
    assert sum(at_s >= 10 for at_s in looks) <= 52


def test_what_is_left_of_many_is_told() -> None:
    assert wait_until_none(list, timeout_s=0, what="pods are gone")
    with pytest.raises(NeverSo, match="pods are gone: not so after 0 s; last seen: a; b"):
        wait_until_none(lambda: ["a", "b"], timeout_s=0, what="pods are gone")


def test_a_step_is_done_whatever_it_returns() -> None:
    assert persist(lambda: "", timeout_s=0, what="a step") == ""

    def fail() -> None:
        raise CommandFailed(["kubectl"], "failed", code=1, output="refused")

    with pytest.raises(NeverSo, match=r"a step: not so after 0 s; last seen: .*refused"):
        persist(fail, timeout_s=0, what="a step")
