import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.access import AccessRule, Namespace, restricted, rule_for, unknown_namespace
from sunkpy.core.gang.job.options import NEVER_USERS, is_user
from sunkpy.core.model.job_spec import JobSpec
from tests.unit.core.gang.pods import make_gang

CHEMISTS = AccessRule(namespaces=("chem",), partitions=("low", "gpu"), accounts=("chem",), qos=("*",))
ANYBODY = AccessRule(namespaces=("*",), partitions=("*",))
LABELLED = AccessRule(namespace_labels={"team": "ml"}, reservations=("night",))


def ask(rule, default_partition="low", **annotations):
    gang = make_gang(annotations={f"sunkpy.dev/{name}": value for name, value in annotations.items()})
    return restricted(gang, rule, default_partition=default_partition)


@pytest.mark.parametrize(
    ("namespace", "labels", "rule"),
    [
        ("chem", {}, CHEMISTS),
        ("lab", {"team": "ml", "x": "y"}, LABELLED),
        ("lab", {"team": "chem"}, ANYBODY),
        ("lab", {}, ANYBODY),
    ],
)
def test_the_first_rule_that_covers_a_namespace_holds(namespace, labels, rule):
    assert rule_for((CHEMISTS, LABELLED, ANYBODY), Namespace(name=namespace, labels=labels)) == rule


def test_a_rule_without_a_namespace_covers_nobody():
    assert rule_for((AccessRule(partitions=("high",)),), Namespace(name="chem", labels={"team": "ml"})) == AccessRule()


def test_nobody_gets_more_than_the_default_partition_unasked():
    gang = ask(rule_for((), Namespace(name="default")))
    assert (gang.options.partition, gang.problems) == ("low", ())
    assert ask(AccessRule(), partition="low").problems == ()
    (problem,) = ask(AccessRule(), partition="high").problems
    assert problem.fatal
    assert str(problem) == (
        "annotation sunkpy.dev/partition: namespace default may not use partition high: it may use low; "
        "an administrator can allow more in scheduler.access of the Slurm cluster"
    )


@pytest.mark.parametrize("kind", ["user", "account", "qos", "reservation", "licenses"])
def test_what_is_not_opened_is_refused_by_name(kind):
    (problem,) = ask(AccessRule(), **{kind: "x"}).problems
    assert f"namespace default may not use {kind} x: it may name none" in str(problem)


def test_a_pod_that_names_nothing_gets_the_first_that_is_allowed():
    options = ask(CHEMISTS, default_partition="other").options
    assert (options.partition, options.account, options.qos, options.reservation) == ("low", "chem", "", "")
    assert ask(LABELLED).options.reservation == ""


def test_of_several_partitions_each_must_be_allowed():
    assert ask(CHEMISTS, partition="low,gpu").problems == ()
    (problem,) = ask(CHEMISTS, partition="low,high").problems
    assert "may not use partition high: it may use low, gpu" in str(problem)


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("matlab", ""),
        ("matlab:2,ansys@flex:3", ""),
        ("matlab:1000,comsol:1", "comsol"),
        ("matlab|comsol", "comsol"),
        ("matlab;comsol", "comsol"),
        ("(matlab:1|comsol:2)", "comsol"),
        ("matlab*2", "matlab*2"),
        ("matla", "matla"),
    ],
)
def test_licenses_are_opened_by_name_whatever_their_number(asked, refused):
    gang = ask(AccessRule(licenses=("matlab", "ansys@flex")), licenses=asked)
    told = f"may not use licenses {refused}: it may use matlab, ansys@flex" if refused else ""
    assert (told in gang.refused, bool(gang.refused)) == (True, bool(refused))
    assert gang.options.licenses == ("" if refused else asked)
    assert ask(AccessRule(licenses=("*",)), licenses=asked).refused == ""
    assert ask(AccessRule(licenses=("matlab",))).options.licenses == ""


def test_what_is_refused_is_not_kept_for_a_pod_that_has_a_node_gets_a_job_all_the_same():
    asked = {"user": "zoe", "partition": "low,high", "account": "physics", "qos": "urgent", "reservation": "night"}
    asked |= {"licenses": "matlab:4"}
    gang = ask(AccessRule(users=("ann",), accounts=("chem",)), **asked)
    assert gang.options == JobSpec(user="ann", partition="low", account="chem")
    assert len(gang.problems) == 6
    assert unknown_namespace(make_gang(annotations={"sunkpy.dev/user": "zoe"})).options == JobSpec()
    assert ask(AccessRule(users=("root",))).options.user == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dependency": "afterok:5,singleton"}, "dependency: singleton would wait for jobs of other namespaces, too"),
        ({"exclusive": "user"}, "exclusive: the value user would share nodes with jobs of other namespaces, too"),
    ],
)
def test_what_slurm_decides_by_user_needs_a_user_of_ones_own(asked, said):
    gang = ask(CHEMISTS, **asked)
    assert gang.refused == (
        f"annotation sunkpy.dev/{said}, because namespace default has no Slurm user of its own. "
        "Leave it out, or ask an administrator for a Slurm user of the namespace: scheduler.access of the Slurm cluster"
    )
    assert (gang.options.dependency, gang.options.shared) == ("", ""), "a pod that has a node gets a job all the same"
    assert ask(AccessRule(users=("*",)), **asked).refused
    own = ask(AccessRule(users=("ann",)), **asked)
    assert (own.refused, bool(own.options.dependency or own.options.shared)) == ("", True)


def test_a_star_opens_a_kind():
    assert ask(CHEMISTS, qos="anything").problems == ()
    assert ask(ANYBODY, partition="any").problems == ()
    assert ask(ANYBODY, default_partition="").options.partition == ""


def test_a_pod_belongs_to_the_first_user_of_its_namespace_or_to_the_one_that_it_names():
    rule = AccessRule(namespaces=("chem",), users=("ann", "bob"))
    assert ask(rule).options.user == "ann"
    assert ask(rule, user="bob").options.user == "bob"
    (problem,) = ask(rule, user="zoe").problems
    assert problem.fatal
    assert str(problem) == (
        "annotation sunkpy.dev/user: namespace default may not use user zoe: it may use ann, bob; "
        "an administrator can allow more in scheduler.access of the Slurm cluster"
    )


def test_without_users_the_jobs_are_the_schedulers_own():
    assert ask(CHEMISTS).options.user == ""
    assert ask(AccessRule(users=("*",))).options.user == ""


@pytest.mark.parametrize(
    "name", [*sorted(NEVER_USERS), "0", "1001", "$(id)", "a b", "ann\n", "../ann", "-ann", "ann,bob", "ä"]
)
def test_nobody_is_made_a_user_who_is_no_person(name):
    """Slurm takes digits for a uid."""
    assert not is_user(name)
    assert all(problem.fatal for problem in ask(AccessRule(users=("*",)), user=name).problems) or name.strip() == "ann"
    (problem, *_) = ask(AccessRule(users=(name,))).problems
    assert problem.fatal
    assert str(problem) == f"Slurm user {name!r} of namespace default (scheduler.access) is not the name of a person"


@pytest.mark.parametrize("name", ["ann", "a", "_svc", "ann.lee", "ann-lee", "ann@corp.example", "machine$", "Ann2"])
def test_what_a_person_may_be_called(name):
    assert is_user(name)
    assert ask(AccessRule(users=(name,)), user=name).options.user == name


ANNOTATED = Namespace(
    name="lab", annotations={"sunkpy.dev/users": "ann, bob", "sunkpy.dev/accounts": "chem", "sunkpy.dev/qos": " ,low,"}
)


def test_annotations_of_a_namespace_count_only_where_they_are_held_by_a_policy():
    assert rule_for((), ANNOTATED) == AccessRule()
    assert rule_for((), ANNOTATED, annotated=True) == AccessRule(users=("ann", "bob"), accounts=("chem",), qos=("low",))


def test_what_the_map_says_of_a_namespace_outweighs_its_annotations():
    assert rule_for((ANYBODY,), ANNOTATED, annotated=True) == ANYBODY


def test_before_its_namespace_is_known_a_gang_is_nobodys():
    (problem,) = unknown_namespace(make_gang()).problems
    assert problem.fatal
    assert str(problem) == "the scheduler does not know yet what namespace default may ask of Slurm"


@given(st.text(max_size=20), st.text(max_size=30))
def test_whatever_a_namespace_and_a_pod_write_the_user_is_one_of_the_namespace(said, asked):
    namespace = Namespace(name="default", annotations={"sunkpy.dev/users": said})
    rule = rule_for((), namespace, annotated=True)
    gang = ask(rule, user=asked)
    allowed = {"", *(name for name in rule.users if name != "*")}
    is_fatal = any(problem.fatal for problem in gang.problems)
    assert is_fatal or gang.options.user in allowed or ("*" in rule.users and is_user(gang.options.user))


NAMES = st.sampled_from(["a", "b", "c"])
KINDS = ["user", "partition", "account", "qos", "reservation", "licenses"]


@given(st.lists(NAMES, max_size=2), NAMES, st.sampled_from(KINDS))
def test_nothing_is_submitted_that_the_map_does_not_allow(allowed, asked, kind):
    field = {"qos": "qos", "licenses": "licenses"}.get(kind, f"{kind}s")
    gang = ask(AccessRule(**{field: tuple(allowed)}), default_partition="", **{kind: asked})
    assert any(problem.fatal for problem in gang.problems) == (asked not in allowed)
