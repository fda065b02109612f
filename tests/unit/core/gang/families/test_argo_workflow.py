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


STEPS = {
    "argo-workflows/hello-world.yaml": [("hello", "hello-world")],
    "argo-workflows/dag-diamond.yaml": [(step, "echo") for step in "ABCD"],
    "argo-workflows/retry-on-error.yaml": [("0", "error-container")],
}


@pytest.mark.parametrize("name", STEPS)
def test_a_workflow_is_a_job_per_step(name):
    owners, pods = workflow(manifest(name)[0], STEPS[name])
    gangs = jobs_of(pods, owners)
    assert seen(gangs) == wanted(name)
    assert all(gang.is_complete for gang in gangs)
    assert {gang.suspension for gang in gangs} == {None}


def test_the_step_that_makes_a_jobset_is_a_job_of_its_own():
    owners, pods = workflow(manifest("argo-workflows/jobset-step.yaml")[0], [("s", "jobset-example")])
    assert set(seen(jobs_of(pods, owners))) <= set(wanted("argo-workflows/jobset-step.yaml"))


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
    document = manifest("argo-workflows/hello-world.yaml")[0]
    if strategy:
        document["spec"]["templates"][0]["retryStrategy"] = strategy
    owners, pods = workflow(document, STEPS["argo-workflows/hello-world.yaml"], status=status)
    (gang,) = jobs_of(pods, owners)
    assert gang.final_because == because


def test_a_strategy_of_another_step_does_not_count():
    document = manifest("argo-workflows/hello-world.yaml")[0]
    other = {"name": "other", "container": {}, "retryStrategy": {"retryPolicy": "Always"}}
    document["spec"]["templates"].append(other)
    owners, pods = workflow(document, [("a", "hello-world"), ("b", "other")])
    assert [gang.final_because for gang in jobs_of(pods, owners)] == [DELETED, ""]


def test_a_workflow_made_of_a_template_keeps_the_strategies_in_its_status():
    document = named(manifest("argo-workflows/hello-world.yaml")[0], "hello-world-x")
    _, pods = workflow(document, STEPS["argo-workflows/hello-world.yaml"])
    stored = document["spec"] | {"templateDefaults": {"retryStrategy": {"retryPolicy": "OnError"}}}
    spec = {"workflowTemplateRef": {"name": "t"}}
    made = owner(document | {"spec": spec, "status": {"storedWorkflowTemplateSpec": stored}}, name="hello-world-x")
    assert jobs_of(pods, [made])[0].final_because == ""
    without = owner(document | {"spec": spec}, name="hello-world-x")
    assert jobs_of(pods, [without])[0].final_because == "", "nothing is known"


def test_a_workflow_that_cannot_be_read_costs_no_step_its_job():
    owners, pods = workflow(manifest("argo-workflows/hello-world.yaml")[0], STEPS["argo-workflows/hello-world.yaml"])
    broken = owner({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": owners[0].name}})
    broken = msgspec.structs.replace(broken, spec=msgspec.Raw(b'{"templates": null}'))
    (gang,) = jobs_of(pods, [broken])
    assert (gang.refused, gang.final_because) == ("", "")


def test_defaults_of_the_workflow_count():
    document = manifest("argo-workflows/hello-world.yaml")[0]
    document["spec"]["templateDefaults"] = {"retryStrategy": {"retryPolicy": "Always"}}
    owners, pods = workflow(document, STEPS["argo-workflows/hello-world.yaml"])
    (gang,) = jobs_of(pods, owners)
    assert (gang.kind, gang.final_because) == ("Workflow default/hello-world-x, pod hello-world-x-hello", "")
