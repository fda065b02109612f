"""The family of steps of an Argo Workflow: each step is one pod with one job. The whole Workflow is no gang, because
its steps follow one another.

For Argo a deleted pod is an *Error* of the step, and only a retryStrategy with retryPolicy OnError or Always repeats
the step. `spec.suspend` of a Workflow stops only its next steps, not the running ones, so the scheduler does not
suspend Workflows. A workload that a `resource` template makes (a JobSet …) has no owner above it, and is recognised as
a workload of its own kind.

Sources: argo-workflows workflow/controller/operator.go (processNodeRetries, "pod deleted"), api types RetryStrategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import made_by
from sunkpy.core.gang.families.plain_pod import alone, own_id
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

WORKFLOW: Final = Kind(group="argoproj.io", kind="Workflow")
NODE_ID: Final = "workflows.argoproj.io/node-id"
_REPEATS_ERRORS: Final = ("OnError", "Always")


class _Retry(Wire, frozen=True, kw_only=True):
    retry_policy: str = ""
    expression: str = ""

    @property
    def repeats_errors(self) -> bool:
        """True if Argo repeats a step that ended with an Error. A retryStrategy that has an expression and no policy
        counts as True, because its expression decides about errors, too.
        """
        return self.retry_policy in _REPEATS_ERRORS or (not self.retry_policy and bool(self.expression))


class _Template(Wire, frozen=True, kw_only=True):
    name: str = ""
    retry_strategy: _Retry | None = None


class _Spec(Wire, frozen=True, kw_only=True):
    templates: tuple[_Template, ...] = ()
    template_defaults: _Template = _Template()
    retry_strategy: _Retry | None = None


class _Node(Wire, frozen=True, kw_only=True):
    template_name: str = ""


class _Status(Wire, frozen=True, kw_only=True):
    nodes: Mapping[str, _Node] = {}
    stored_workflow_template_spec: _Spec | None = None


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    return own_id(pod) if made_by(pod, WORKFLOW) is not None else None


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    pod = pods[0]
    workflow = next((owner for owner in owners if owner.is_a == WORKFLOW), None)
    try:
        because = _final(pod, workflow) if workflow else ""
    except msgspec.ValidationError:
        # The CRD allows any form, and only a warning depends on this.
        because = ""
    return msgspec.structs.replace(alone(id, pod, owners), final_because=because)


def _final(pod: Pod, workflow: Owner) -> str:
    status = workflow.status_as(_Status)
    # A Workflow made of a WorkflowTemplate keeps the template's spec in its status.
    spec = status.stored_workflow_template_spec or workflow.spec_as(_Spec)
    node = status.nodes.get(pod.annotations.get(NODE_ID, ""))
    # The status may be compressed or stored elsewhere; then the pod's step may be any of the templates.
    templates = [each for each in spec.templates if node is None or each.name == node.template_name] or spec.templates
    default = spec.template_defaults.retry_strategy or spec.retry_strategy
    strategies = [each.retry_strategy or default for each in templates]
    if not strategies or any(each is not None and each.repeats_errors for each in strategies):
        return ""
    return "a deleted pod is an Error of its step, which Argo repeats only with retryPolicy OnError or Always"


FAMILY = Family(
    name="Argo Workflow", known_by="its owner is a Workflow", identify=_identify, assemble=_assemble, reads=(WORKFLOW,)
)
