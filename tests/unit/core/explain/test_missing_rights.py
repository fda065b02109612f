"""Which rights are missing, by the apiserver's words."""

from __future__ import annotations

import pytest

from sunkpy.core.explain.missing_rights import how_to_read


def refused(verb, resource, *, group="", where="at the cluster scope"):
    return f'x: {resource} is forbidden: User "ann" cannot {verb} resource "{resource}" in API group "{group}" {where}'


ROLE = "kubectl create clusterrole sunk-reader --verb="
BINDING = "; kubectl create clusterrolebinding sunk-reader --clusterrole=sunk-reader --user=ann"


@pytest.mark.parametrize(
    ("unread", "told"),
    [
        ([refused("list", "nodes")], f"list nodes: {ROLE}list --resource=nodes{BINDING}"),
        (
            [refused("list", "pods"), refused("list", "pods"), refused("get", "nodesets", group="sunkpy.dev")],
            f"list pods, get nodesets.sunkpy.dev: {ROLE}get,list --resource=pods,nodesets.sunkpy.dev{BINDING}",
        ),
        ([refused("list", "pods", where='in the namespace "slurm"')], "list pods in namespace slurm."),
    ],
)
def test_the_missing_right_is_named_with_the_commands_that_give_it(unread, told):
    assert how_to_read(unread) == f"Ask an admin for the right to {told}"


def test_what_is_missing_without_a_refusal_is_left_to_its_own_words():
    told = how_to_read(["Slurm's side: not asked"])
    assert told == "Ask as somebody who may read this; to see your own rights: kubectl auth can-i --list"
