"""Who asks gets an answer to a question that was sent afterwards, and many who ask at once share one."""

from __future__ import annotations

import asyncio

import pytest

from sunkpy.runtime.fresh_answer import FreshAnswer, FreshAnswers

MANY = 20


class Source:
    """Counts its questions. Each is answered with its number when the test says so, or with an error."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, key: str = "") -> int:
        self.asked.append(key)
        number = len(self.asked)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return number


async def test_who_comes_while_a_question_is_on_its_way_shares_the_next_one() -> None:
    source = Source()
    answers = FreshAnswers(source.ask)
    first = asyncio.ensure_future(answers.get("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.ensure_future(answers.get("a")) for _ in range(MANY)]
    await asyncio.sleep(0)
    source.may_answer.set()
    assert (await first)[0] == 1
    assert {number for number, _ in await asyncio.gather(*later)} == {2}
    assert (await answers.get("a"))[0] == 3


async def test_each_key_is_asked_for_by_itself() -> None:
    source = Source()
    source.may_answer.set()
    answers = FreshAnswers(source.ask)
    await asyncio.gather(*(answers.get(key) for key in "ab"))
    assert sorted(source.asked) == ["a", "b"]


async def test_an_earlier_answer_counts_for_who_needs_one_since_an_earlier_moment() -> None:
    source, now = Source(), [10.0]
    source.may_answer.set()
    answer = FreshAnswer(source.ask, clock=lambda: now[0])
    assert await answer.get(sent_after=9.0) == (1, 10.0)
    now[0] = 20.0
    assert await answer.get(sent_after=9.5) == (1, 10.0)
    assert await answer.get(sent_after=10.0) == (2, 20.0)


async def test_an_error_is_shared_as_an_answer_is_and_the_next_question_may_do_better() -> None:
    source = Source()
    source.error = ConnectionError("away")
    answers = FreshAnswers(source.ask)
    asking = [asyncio.ensure_future(answers.get("a")) for _ in range(MANY)]
    await asyncio.sleep(0)
    source.may_answer.set()
    assert all(isinstance(each, ConnectionError) for each in await asyncio.gather(*asking, return_exceptions=True))
    assert len(source.asked) == 2
    source.error = None
    assert (await answers.get("a"))[0] == 3


async def test_an_error_counts_for_nobody_who_comes_later_whatever_moment_would_do() -> None:
    source, now = Source(), [10.0]
    source.may_answer.set()
    source.error = ConnectionError("away")
    answer = FreshAnswer(source.ask, clock=lambda: now[0])
    with pytest.raises(ConnectionError):
        await answer.get(sent_after=9.0)
    source.error, now[0] = None, 20.0
    assert await answer.get(sent_after=9.0) == (2, 20.0)


async def test_who_goes_while_asking_leaves_the_question_to_the_next() -> None:
    source = Source()
    answers = FreshAnswers(source.ask)
    first = asyncio.ensure_future(answers.get("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.ensure_future(answers.get("a"))
    await asyncio.sleep(0)
    first.cancel()
    source.may_answer.set()
    assert (await second)[0] == 2
