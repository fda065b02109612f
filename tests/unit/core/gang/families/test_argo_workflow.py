"""Steps of Argo Workflows: a job per step, and what an eviction means for it."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.core.gang.families.makers import as_kept, jobs_of, named, seen, wanted
from tests.unit.core.gang.families.workload import manifest, owner, pod

DELETED = "a deleted pod is an Error of its step, which Argo repeats only with retryPolicy OnError or Always"
WAIT = {"name": "wait", "resources": {}}


def workflow(document, steps, *, status=True):
    """A Workflow and the pods of its steps, (step, template) each."""
    document = named(document, document["metadata"]["generateName"] + "x")
    name = document["metadata"]["name"]
    templates = {each["name"]: each for each in document["spec"]["templates"]}
    nodes = {f"{name}-{step}": {"templateName": template} for step, template in steps}
    made = owner(document | {"status": {"nodes": nodes} if status else {}})
    pods = []
    for step, template in steps:
        # A `resource` template is run by a container of Argo's own.
        main = templates[template].get("container") or {"name": "main", "image": "argoexec"}
        spec = as_kept({"schedulerName": "slurm", "restartPolicy": "Never", "containers": [main, WAIT]})
        annotations = {"workflows.argoproj.io/node-id": f"{name}-{step}"}
        labels = {"workflows.argoproj.io/workflow": name}
        meta = {"labels": labels, "annotations": annotations}
        pods.append(pod(f"{name}-{step}", owned_by=(made,), template={"metadata": meta, "spec": spec}))
    return [made], pods


GREET = "argo-workflows/hello-world.yaml"
STEPS = [("hello", "greet")]


def workflow_of(path, steps):
    """The Workflow of a file, each of whose steps is made of the last of its templates."""
    (document,) = manifest(path)
    template = document["spec"]["templates"][-1]["name"]
    return workflow(document, [(step, template) for step in steps])


@pytest.mark.parametrize(
    ("name", "steps"),
    [(GREET, ["hello"]), ("argo-workflows/dag-diamond.yaml", "abcd"), ("argo-workflows/retry-on-error.yaml", ["0"])],
)
def test_a_workflow_is_a_job_per_step(name, steps, manifests):
    owners, pods = workflow_of(manifests / name, steps)
    gangs = jobs_of(pods, owners)
    assert seen(gangs) == wanted(manifests / name)
    assert all(gang.is_complete for gang in gangs)
    assert {gang.suspension for gang in gangs} == {None}


def test_the_step_that_makes_a_jobset_is_a_job_of_its_own(manifests):
    path = manifests / "argo-workflows/jobset-step.yaml"
    owners, pods = workflow_of(path, ["s"])
    assert set(seen(jobs_of(pods, owners))) <= set(wanted(path))


@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize(
    ("strategy", "because"),
    [
        (None, DELETED),
        ({"limit": "2"}, DELETED),
        ({"retryPolicy": "OnFailure"}, DELETED),
        ({"retryPolicy": "OnTransientError"}, DELETED),
        ({"retryPolicy": "OnError"}, ""),
        ({"retryPolicy": "Always"}, ""),
        ({"expression": "lastRetry.exitCode != '2'"}, ""),
    ],
)
def test_only_some_strategies_bring_a_step_back(strategy, because, status):
    document = manifest(GREET)[0]
    if strategy:
        document["spec"]["templates"][0]["retryStrategy"] = strategy
    owners, pods = workflow(document, STEPS, status=status)
    (gang,) = jobs_of(pods, owners)
    assert gang.final_because == because


def test_a_strategy_of_another_step_does_not_count():
    document = manifest(GREET)[0]
    other = {"name": "other", "container": {}, "retryStrategy": {"retryPolicy": "Always"}}
    document["spec"]["templates"].append(other)
    owners, pods = workflow(document, [("a", "greet"), ("b", "other")])
    assert [gang.final_because for gang in jobs_of(pods, owners)] == [DELETED, ""]


def test_a_workflow_made_of_a_template_keeps_the_strategies_in_its_status():
    document = named(manifest(GREET)[0], "greet-x")
    _, pods = workflow(document, STEPS)
    stored = document["spec"] | {"templateDefaults": {"retryStrategy": {"retryPolicy": "OnError"}}}
    spec = {"workflowTemplateRef": {"name": "t"}}
    made = owner(document | {"spec": spec, "status": {"storedWorkflowTemplateSpec": stored}}, name="greet-x")
    assert jobs_of(pods, [made])[0].final_because == ""
    without = owner(document | {"spec": spec}, name="greet-x")
    assert jobs_of(pods, [without])[0].final_because == "", "nothing is known"


def test_a_workflow_that_cannot_be_read_costs_no_step_its_job():
    owners, pods = workflow(manifest(GREET)[0], STEPS)
    broken = owner({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": owners[0].name}})
    broken = msgspec.structs.replace(broken, spec=msgspec.Raw(b'{"templates": null}'))
    (gang,) = jobs_of(pods, [broken])
    assert (gang.refused, gang.final_because) == ("", "")


def test_defaults_of_the_workflow_count():
    document = manifest(GREET)[0]
    document["spec"]["templateDefaults"] = {"retryStrategy": {"retryPolicy": "Always"}}
    owners, pods = workflow(document, STEPS)
    (gang,) = jobs_of(pods, owners)
    assert (gang.kind, gang.final_because) == ("Workflow default/greet-x, pod greet-x-hello", "")
