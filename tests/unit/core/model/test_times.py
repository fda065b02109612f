from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.model.times import LATEST, backoff_s, is_of_start, parse_rfc3339, rfc3339, rfc3339_micro, utc_now

moments = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))


def test_times_are_written_as_kubernetes_does() -> None:
    when = datetime(2026, 11, 20, 12, 0, 0, 1, tzinfo=UTC)
    assert rfc3339(when) == "2026-11-20T12:00:00Z"
    assert rfc3339_micro(when) == "2026-11-20T12:00:00.000001Z"


@given(moments)
def test_a_time_that_is_written_is_read_again(when: datetime) -> None:
    assert parse_rfc3339(rfc3339_micro(when)) == when
    assert parse_rfc3339(rfc3339(when)) == when.replace(microsecond=0)


@given(moments, moments)
def test_written_times_sort_as_the_times_do(one: datetime, other: datetime) -> None:
    assert (rfc3339_micro(one) < rfc3339_micro(other)) == (one < other)


@pytest.mark.parametrize("text", ["2026-11-20T13:00:00+01:00", "2026-11-20T12:00:00.000000+00:00"])
def test_an_offset_is_understood(text: str) -> None:
    assert parse_rfc3339(text) == datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20T25:00:00Z", "1763640000"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|hour"):
        parse_rfc3339(text)


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
spans = st.timedeltas(timedelta(0), timedelta(days=2))


@given(spans, spans, spans)
def test_of_one_clock_what_was_told_since_a_begin_is_of_it_however_far_that_clock_is_ahead(ago, later, ahead):
    begun = NOW - ago
    told = min(begun + later, NOW)
    assert any(is_of_start(told + ahead, begun + ahead, now) for now in (NOW, NOW + later)), "or as soon as it took"
    assert is_of_start(begun + later, begun, LATEST)
    assert not is_of_start(begun - timedelta(seconds=1), begun, NOW)


@given(spans, spans)
def test_a_time_to_come_is_of_an_earlier_start_when_the_clock_was_ahead(ago, ahead):
    assert not is_of_start(NOW + timedelta(seconds=31) + ahead, NOW - ago, NOW)


def test_clocks_of_two_machines_differ_by_some_seconds():
    assert is_of_start(NOW + timedelta(seconds=30), NOW, NOW)


def test_now_knows_that_it_is_utc() -> None:
    assert utc_now().utcoffset() == timedelta(0)


@pytest.mark.parametrize(("failures", "delay_s"), [(0, 0.2), (1, 0.4), (2, 0.8), (5, 6.4), (6, 10.0), (10_000, 10.0)])
def test_delays_double_up_to_the_last(failures: int, delay_s: float) -> None:
    assert backoff_s(failures, first_s=0.2, last_s=10.0) == pytest.approx(delay_s)


@given(st.integers(0, 10**6), st.floats(0.01, 60), st.floats(0.01, 3600))
def test_a_delay_never_shrinks_and_never_passes_the_last(failures: int, first_s: float, last_s: float) -> None:
    delay_s = backoff_s(failures, first_s=first_s, last_s=last_s)
    assert 0 < delay_s <= backoff_s(failures + 1, first_s=first_s, last_s=last_s) <= last_s
