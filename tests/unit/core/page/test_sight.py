import msgspec

from sunkpy.core.model.objects import PodSpec
from sunkpy.core.overview.sight import EVERYTHING, HIDDEN, Sight
from sunkpy.core.page.rows import CHANGES, EMPTY, HANDOVERS, HEAD, NODES, RUNNING, WAITING
from sunkpy.core.page.sight import filter_tables
from sunkpy.core.page.tables import build_tables
from tests.unit.core.overview.test_pool import on_node
from tests.unit.core.page.test_handovers import preemption
from tests.unit.core.page.test_tables import event, facts, waiting

UNBOUND = msgspec.structs.replace(on_node("odd", 1), spec=PodSpec())
SECRET = event(
    "OwnerUnknown", kind="Pod", name="hush", namespace="team", by="scheduler", message="Job team/hush is unknown"
)
TABLES = build_tables(
    facts(
        jobs=(waiting(20, 5), waiting(21, 9, "k8s:team/later:u")),
        pods=(UNBOUND,),
        events=[preemption(), SECRET, event("SlurmCordon")],
    )
)
STRANGER = Sight(namespaces=frozenset({"other"}))


def as_sent(sight):
    return msgspec.json.encode([list(rows.items()) for rows in filter_tables(TABLES, sight).values()]).decode()


def test_names_of_pods_of_other_namespaces_are_nowhere():
    text = as_sent(STRANGER)
    assert not [name for name in ("team", "web", "later", "odd", "hush") if name in text]
    assert HIDDEN in text


def test_a_stranger_still_sees_the_pool_and_that_there_are_pods():
    tables = filter_tables(TABLES, STRANGER)
    assert tables[NODES]["node-2"].pods == (HIDDEN,)
    assert [(key, row.name) for key, row in tables[WAITING].items()] == [
        ("21", HIDDEN), ("20", "train"), (f"{HIDDEN} 2", HIDDEN),
    ]  # fmt: skip
    assert tables[RUNNING]["13"].name == HIDDEN
    (row,) = tables[HANDOVERS].values()
    assert (row.pod, row.by_job) == (HIDDEN, 57)
    changes = [(change.kind, change.name, change.what) for change in tables[CHANGES].values()]
    assert changes == [("", HIDDEN, "OwnerUnknown"), ("Node", "node-3", "SlurmCordon")]


def test_who_may_read_a_namespace_sees_its_pods():
    tables = filter_tables(TABLES, Sight(namespaces=frozenset({"team"})))
    assert tables == TABLES == filter_tables(TABLES, EVERYTHING)


def test_a_user_of_slurm_sees_their_own_jobs_with_their_places():
    tables = filter_tables(TABLES, Sight(user="ann"))
    assert [(row.name, row.place) for row in tables[WAITING].values()] == [("team/later", 1), ("train", 2)]
    assert [tables[name] for name in (NODES, RUNNING, HANDOVERS, CHANGES)] == [EMPTY[NODES]] * 4
    assert tables[HEAD][""].headline == "0 of your jobs have nodes, 2 wait"
    assert filter_tables(TABLES, Sight(user="bob"))[WAITING] == {}
    assert not Sight(user="ann", namespaces=None).sees_pods_of("team")


def test_a_user_of_slurm_is_told_when_their_jobs_are_not_known():
    """No number of jobs stands there, for none was read."""
    read = facts()
    away = msgspec.structs.replace(read, pool=msgspec.structs.replace(read.pool, jobs=None, unread=("Slurm: away",)))
    head = filter_tables(build_tables(away), Sight(user="ann"))[HEAD][""]
    assert (head.headline, head.unread) == ("Your jobs cannot be shown", ("Slurm: away",))
