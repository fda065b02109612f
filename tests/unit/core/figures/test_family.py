"""Figures as text."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from sunkpy.core.figures.family import MetricFamily, Sample, render, single


def test_prometheus_reads_what_was_written_whatever_the_label() -> None:
    name = 'a "b" \\ \n c'
    family = MetricFamily(name="x", help="X", labels=("user",), samples=[Sample((name,), 2.5)])
    page = render([family, single("y_total", "Y", 3)], most=10)
    x, y = text_string_to_metric_families(page.text.decode())
    assert (x.type, x.samples[0].labels, x.samples[0].value) == ("gauge", {"user": name}, 2.5)
    assert (y.type, y.samples[0].value) == ("counter", 3)


def test_of_each_name_the_first_by_their_labels_stay_and_the_rest_is_counted() -> None:
    many = MetricFamily(name="x", help="X", labels=("node",), samples=[Sample((name,), 1) for name in ("c", "a", "b")])
    page = render([many, single("y", "Y", 3)], most=2)
    shown = [
        sample.labels for family in text_string_to_metric_families(page.text.decode()) for sample in family.samples
    ]
    assert shown == [{"node": "a"}, {"node": "b"}, {}]
    assert page.cut == {"x": 1}


def test_a_histogram_is_shown_whole_or_not_at_all() -> None:
    samples = [
        sample
        for name in ("b", "a")
        for sample in (
            Sample((name, "1"), 2),
            Sample((name, "+Inf"), 3),
            Sample((name, "_sum"), 7),
            Sample((name, "_count"), 3),
        )
    ]
    page = render([MetricFamily(name="x", help="X", labels=("account", "le"), samples=samples, lines=4)], most=7)
    (x,) = text_string_to_metric_families(page.text.decode())
    assert x.type == "histogram"
    assert {(s.name, s.labels.get("le", ""), s.value) for s in x.samples} == {
        ("x_bucket", "1", 2),
        ("x_bucket", "+Inf", 3),
        ("x_sum", "", 7),
        ("x_count", "", 3),
    }
    assert {sample.labels["account"] for sample in x.samples} == {"a"}
    assert page.cut == {"x": 4}
