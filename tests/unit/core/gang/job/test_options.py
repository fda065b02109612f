import pytest
from msgspec.structs import replace

from sunkpy.core.gang.job.options import BadOption, Switches, read_options, time_limit_min
from sunkpy.core.model.job_spec import JobSpec

P = "sunkpy.dev/"


def read(layers):
    """Options of a pod, from its annotations and those of what stands above it."""
    own, *above = layers
    return read_options([("pod", own)], above)


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
        ("0", 0),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text, minutes):
    assert time_limit_min(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "-5", "1:2:3:4", "1h30m", "1-", "2w"])
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
    options, problems = read([annotations])
    assert getattr(options, field) == value
    assert problems == ()


def test_a_pod_says_it_before_its_owner():
    options, _ = read([{"sunkpy.dev/qos": "pod"}, {"sunkpy.dev/qos": "owner", "sunkpy.dev/account": "a"}])
    assert (options.qos, options.account) == ("pod", "a")


def test_a_bad_value_is_fatal_and_names_the_annotation():
    _, problems = read([{"sunkpy.dev/time-limit": "soon"}])
    assert [(p.annotation, p.fatal) for p in problems] == [("sunkpy.dev/time-limit", True)]
    assert str(problems[0]) == (
        "annotation sunkpy.dev/time-limit: 'soon' is not a time limit: "
        "write minutes, hours:minutes:seconds, days-hours:minutes, 30m, 2h or UNLIMITED"
    )


def test_a_typo_is_told_with_the_name_that_was_meant():
    _, problems = read([{"sunkpy.dev/partiton": "high"}])
    assert not problems[0].fatal
    assert str(problems[0]) == (
        "annotation sunkpy.dev/partiton: not known and ignored; did you mean sunkpy.dev/partition?"
    )


def test_annotations_of_other_owners_and_our_own_notes_are_no_typos():
    own = {"sunkpy.dev/job-id": "7", "sunkpy.dev/slurm-node": "a", "example.com/partition": "x"}
    assert read([own])[1] == ()


@pytest.mark.parametrize("value", ["a b", "high;rm", "$(id)"])
def test_names_with_strange_characters_are_refused(value):
    _, problems = read([{"sunkpy.dev/account": value}])
    assert problems[0].fatal
    allowed = "only letters, digits and _ . @ : - are allowed"
    assert str(problems[0]) == f"annotation sunkpy.dev/account: {value!r} is not a name: {allowed}"


HOSTILE = (
    "$(id)",
    "`id`",
    "a;id",
    "a|id",
    "a&&id",
    "a'b",
    'a"b',
    "../../etc/passwd",
    "a b",
    "<x>",
    "${IFS}",
    "a\\b",
    "ä",
)
NAMES = (
    "account", "dependency", "exclusive", "gpu-type", "job-name", "on-preemption", "partition", "qos", "reservation",
    "segment", "switches", "time-limit", "user", "wckey",
)  # fmt: skip
LINES = ("comment", "constraint", "licenses")


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_shell_would_read_is_refused_wherever_slurm_wants_a_name(text):
    """A comment is any line, and constraints and licenses have a grammar, which is Slurm's: no shell sees them."""
    for name in NAMES:
        options, problems = read([{P + name: text}])
        assert (options, [problem.fatal for problem in problems]) == (JobSpec(), [True]), name
    for name in LINES:
        options, problems = read([{P + name: text}])
        assert (getattr(options, name), problems) == (text, ())


@pytest.mark.parametrize(
    ("annotations", "field", "value"),
    [
        ({"slurmjob.slinky.slurm.net/job-name": "train"}, "name", "train"),
        ({"slurmjob.slinky.slurm.net/wckey": "chem"}, "wckey", "chem"),
        ({"sunkpy.dev/switches": "1"}, "switches", Switches(count=1)),
        ({"sunkpy.dev/segment": "4"}, "segment", 4),
        ({"sunkpy.dev/switches": "2@10:00"}, "switches", Switches(count=2, wait_s=600)),
        ({"sunkpy.dev/switches": "1@30m"}, "switches", Switches(count=1, wait_s=1800)),
        ({"sunkpy.dev/on-preemption": "suspend"}, "on_preemption", "suspend"),
        ({"sunkpy.dev/account": " chem "}, "account", "chem"),
    ],
)
def test_what_else_can_be_asked(annotations, field, value):
    options, problems = read([annotations])
    assert (getattr(options, field), problems) == (value, ())


@pytest.mark.parametrize(
    "text",
    [
        "afterok:12", "afterany:12:13", "afternotok:12_3", "after:12+10", "singleton",
        "afterok:12,singleton", "afterok:12?afternotok:12?after:13", "afterok:4294967295",
    ],
)  # fmt: skip
def test_a_job_may_wait_for_others_as_with_sbatch(text):
    options, problems = read([{"sunkpy.dev/dependency": text}])
    assert (options.dependency, problems) == (text, ())


@pytest.mark.parametrize(
    "text",
    [
        "12", "afterok", "afterok:", "afterok:0", "afterok:-1", "afterok:x", "whenever:12", "AfterOK:12", "afterok:12:",
        "afterok:12,", "afterok:12,afterany:13?singleton", "afterok:12 singleton", "afterok:12;id", "afterok:$(id)",
        "afterok:12\nsingleton", "singleton:12", "expand:12", "aftercorr:12", "afterok:12345678901",
        "afterok:\u0661",
    ],
)  # fmt: skip
def test_a_bad_dependency_says_what_to_write(text):
    options, (problem,) = read([{"sunkpy.dev/dependency": text}])
    assert (options.dependency, problem.fatal) == ("", True)
    assert "is not a dependency: write afterok:123" in problem.text


@pytest.mark.parametrize("text", ["0", "four", "-4", "40000", "4.0"])
def test_a_bad_segment_says_what_to_write(text):
    _, (problem,) = read([{"sunkpy.dev/segment": text}])
    assert problem.text == f"{text!r} is not a number of nodes: write 4 to keep each four nodes in one block"


@pytest.mark.parametrize("text", ["0", "one", "1@", "1@soon", "-1", "99999", "1@1:2:3:4"])
def test_bad_switches_say_what_to_write(text):
    _, (problem,) = read([{"sunkpy.dev/switches": text}])
    assert problem.fatal
    assert problem.text == f"{text!r} is not a number of switches: write 1, or 1@30:00 to wait 30 minutes for it"


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        ("slurmjob.slinky.slurm.net/user-id", "sunkpy.dev/user says by name whose job it is"),
        ("sunk.coreweave.com/user-id", "sunkpy.dev/user says by name whose job it is"),
        ("slurmjob.slinky.slurm.net/min-nodes", "the size of a job comes from the requests and the number of its pods"),
        ("slurmjob.slinky.slurm.net/mem-per-node", "the size of a job comes from the requests"),
        ("slurmjob.slinky.slurm.net/gres", "sunkpy.dev/gpu-type says which kind"),
        ("slurmjob.slinky.slurm.net/priority", "comes from its partition, account and QoS"),
        ("kueue.x-k8s.io/podset-preferred-topology", "sunkpy.dev/switches"),
        ("kai.scheduler/topology-preferred-placement", "sunkpy.dev/switches"),
        ("kueue.x-k8s.io/podset-slice-required-topology", "sunkpy.dev/segment"),
        ("kueue.x-k8s.io/podset-slice-required-topology-constraints", "sunkpy.dev/segment"),
    ],
)
def test_what_others_have_and_we_do_not_is_answered_by_name(annotation, says):
    _, (problem,) = read([{annotation: "7"}])
    assert says in problem.text
    assert not problem.fatal
    assert read([{}, {annotation: "7"}])[1] == (problem,), "of the owner, too"


@pytest.mark.parametrize("name", ["comment", "account", "time-limit", "switches", "on-preemption", "job-name"])
@pytest.mark.parametrize("text", ["x" * 10_000_000, "9" * 100_000])
def test_a_huge_value_is_refused_in_few_words(name, text):
    _, (problem,) = read([{f"sunkpy.dev/{name}": text}])
    assert str(problem) == f"annotation sunkpy.dev/{name}: it is longer than 1024 characters"


@pytest.mark.parametrize("text", ["²", "1e3", "９", "9" * 30, "11y"])
@pytest.mark.parametrize("name", ["sunkpy.dev/time-limit", "sunk.coreweave.com/timeout"])
def test_no_number_is_read_out_of_what_is_none(name, text):
    _, (problem,) = read([{name: text}])
    assert problem.fatal


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\x00b", "a\u2028b", "\x1b[2J"])
def test_nothing_gets_into_a_comment_that_ends_its_line(text):
    _, (problem,) = read([{"sunkpy.dev/comment": text}])
    assert problem.text == "only printable characters on one line are allowed"


def test_of_many_unknown_annotations_the_first_are_told():
    _, problems = read([{f"sunkpy.dev/nothing-{number:05}": "1" for number in range(5000)}])
    assert len(problems) == 11
    assert problems[-1].text == "not known and ignored, and so are 4989 more"


def of_gang(*pods, above=()):
    """Options of a gang whose pods p0, p1 … say this."""
    members = [(f"p{n}", {P + key: text for key, text in said.items()}) for n, said in enumerate(pods)]
    return read_options(members, above)


AGREE = "the pods of a gang are one Slurm job and must agree: "


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        (
            [{"partition": "low"}, {"partition": "high"}],
            f"annotation sunkpy.dev/partition: {AGREE}p0 says 'low', p1 says 'high'",
        ),
        (
            [{"account": "chem"}, {"account": "bio"}, {}, {"account": "chem"}],
            f"annotation sunkpy.dev/account: {AGREE}p0 says 'chem', p1 says 'bio'",
        ),
        ([{"qos": "a"}, {"qos": "not a name"}], f"annotation sunkpy.dev/qos: {AGREE}p0 says 'a', p1 says 'not a name'"),
        (
            [{"constraint": f"c{n}"} for n in range(9)],
            f"annotation sunkpy.dev/constraint: {AGREE}p0 says 'c0', p1 says 'c1', p2 says 'c2'",
        ),
        (
            [{"gpu-type": "a100"}, {"gpu-type": "h100"}],
            f"annotation sunkpy.dev/gpu-type: {AGREE}p0 says 'a100', p1 says 'h100'",
        ),
    ],
)
def test_pods_of_a_gang_that_ask_for_different_things_are_refused_by_name(pods, problem):
    _, problems = of_gang(*pods)
    assert [str(each) for each in problems if each.fatal] == [problem]


@pytest.mark.parametrize(
    ("pods", "options"),
    [
        ([{}, {"partition": "low"}, {}], {"partition": "low"}),
        ([{"exclusive": "true"}, {"exclusive": "node"}], {"shared": "none"}),
        ([{"job-name": "leader"}, {"job-name": "worker", "comment": "b"}], {"name": "leader", "comment": "b"}),
        ([{"time-limit": "1h"}, {"time-limit": "3h"}, {}], {"time_limit_min": 180}),
        ([{"time-limit": "1h"}, {"time-limit": "UNLIMITED"}], {"time_limit_min": 0}),
        ([{"job-id": "1", "place": "worker/0"}, {"job-id": "2", "place": "worker/1"}], {}),
    ],
)
def test_those_that_say_nothing_follow_and_roles_may_differ_in_name_comment_and_time(pods, options):
    assert of_gang(*pods) == (replace(JobSpec(), **options), ())


def test_what_pods_do_not_say_their_owner_may():
    options, problems = of_gang({"qos": "fast"}, {}, above=[{P + "qos": "slow", P + "partition": "low"}])
    assert (options.qos, options.partition, problems) == ("fast", "low", ())


@pytest.mark.parametrize(("unlike", "is_refused"), [(64, False), (65, True)])
def test_a_gang_whose_pods_all_ask_for_something_else_is_refused(unlike, is_refused):
    """Each is compared with the others in each pass, and a gang of two may have thousands of pods."""
    pods = [(f"p-{number}", {"sunkpy.dev/comment": str(number % unlike)}) for number in range(1000)]
    _, problems = read_options(pods, [])
    says = f"the annotations of its pods are of {unlike} different kinds, and 64 are allowed: make several gangs"
    assert any(problem.fatal and problem.text == says for problem in problems) is is_refused
