import pytest

from sunkpy.core.gang.options import BadOption, read_options, time_limit_min


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90),
        ("1:30", 2),
        ("01:00:00", 60),
        ("2-0", 2880),
        ("1-12:30", 2190),
        ("1-00:00:01", 1441),
        ("90s", 2),
        ("30m", 30),
        ("2h", 120),
        ("1d", 1440),
        ("UNLIMITED", 0),
        ("infinite", 0),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text, minutes):
    assert time_limit_min(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "-5", "0", "1:2:3:4", "1h30m", "1-", "2w"])
def test_a_bad_time_limit_says_what_to_write(text):
    with pytest.raises(BadOption, match="write minutes"):
        time_limit_min(text)


@pytest.mark.parametrize(
    ("annotations", "field", "value"),
    [
        ({"sunkpy.dev/partition": "high"}, "partition", "high"),
        ({"sunk.coreweave.com/partition": "high"}, "partition", "high"),
        ({"slurmjob.slinky.slurm.net/partition": "high"}, "partition", "high"),
        ({"sunkpy.dev/account": "ml", "sunk.coreweave.com/account": "other"}, "account", "ml"),
        ({"sunk.coreweave.com/timeout": "90"}, "time_limit_min", 2),
        ({"slurmjob.slinky.slurm.net/timelimit": "15"}, "time_limit_min", 15),
        ({"slurmjob.slinky.slurm.net/constraints": "h100&ib"}, "constraint", "h100&ib"),
        ({"sunkpy.dev/exclusive": "true"}, "shared", "none"),
        ({"sunk.coreweave.com/exclusive": "user"}, "shared", "user"),
        ({"slurmjob.slinky.slurm.net/exclusive": "false"}, "shared", ""),
        ({"sunkpy.dev/gpu-type": "h100"}, "gpu_type", "h100"),
    ],
)
def test_our_names_and_those_of_others_mean_the_same(annotations, field, value):
    options, problems = read_options([annotations])
    assert getattr(options, field) == value
    assert problems == ()


def test_a_pod_says_it_before_its_owner():
    options, _ = read_options([{"sunkpy.dev/qos": "pod"}, {"sunkpy.dev/qos": "owner", "sunkpy.dev/account": "a"}])
    assert (options.qos, options.account) == ("pod", "a")


def test_a_bad_value_is_fatal_and_names_the_annotation():
    _, problems = read_options([{"sunkpy.dev/time-limit": "soon"}])
    assert [(p.annotation, p.fatal) for p in problems] == [("sunkpy.dev/time-limit", True)]
    assert str(problems[0]) == (
        "annotation sunkpy.dev/time-limit: 'soon' is not a time limit: "
        "write minutes, hours:minutes:seconds, days-hours:minutes, 30m, 2h or UNLIMITED"
    )


def test_a_typo_is_told_with_the_name_that_was_meant():
    _, problems = read_options([{"sunkpy.dev/partiton": "high"}])
    assert not problems[0].fatal
    assert str(problems[0]) == (
        "annotation sunkpy.dev/partiton: not known and ignored; did you mean sunkpy.dev/partition?"
    )


def test_annotations_of_other_owners_and_our_own_notes_are_no_typos():
    own = {"sunkpy.dev/job-id": "7", "sunkpy.dev/slurm-node": "a", "example.com/partition": "x"}
    assert read_options([own])[1] == ()


@pytest.mark.parametrize("value", ["a b", "high;rm", "$(id)"])
def test_names_with_strange_characters_are_refused(value):
    _, problems = read_options([{"sunkpy.dev/account": value}])
    assert problems[0].fatal
    allowed = "letters, digits and _ . @ : - only"
    assert str(problems[0]) == f"annotation sunkpy.dev/account: {value!r} is not a name: {allowed}"
