"""`topology` of chart slurm: settings, rights, the files until nodes are known, and what is refused by name."""

import msgspec
import pytest

from sunkpy.core.topology import files
from sunkpy.runtime.settings import TopologySettings
from sunkpy.syncer.places import Places
from sunkpy.syncer.settings import SyncerSettings
from tests.unit.charts.rendering import Refused, of_kind, render

TREE = {
    "slurmConfig": {"conf": {"TopologyPlugin": "topology/tree"}, "files": {"topology.conf": "SwitchName=a Nodes=n1\n"}}
}


def settings(values) -> TopologySettings:
    config = of_kind(render("slurm", values), "ConfigMap")["demo-syncer"]["data"]["config.yaml"]
    return msgspec.yaml.decode(config, type=SyncerSettings).topology


def slurm_config(values) -> dict[str, str]:
    return of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]


def test_without_a_source_there_is_nothing_but_what_loads_none():
    manifests = render("slurm")
    assert settings({}) == TopologySettings()
    assert "demo-topology" not in of_kind(manifests, "ConfigMap")
    assert not [name for name in of_kind(manifests, "ClusterRole") if "topology" in name]
    assert not {"topology.conf", "topology.yaml"} & slurm_config({}).keys()
    assert "Topology" not in slurm_config({})["slurm.conf"]


def test_with_labels_the_syncer_may_read_nodes_and_write_one_config_map():
    manifests = render("slurm", {"topology": {"source": "auto"}})
    assert settings({"topology": {"source": "auto"}}) == TopologySettings(source="auto", config_map="demo-topology")
    (role,) = [role for name, role in of_kind(manifests, "ClusterRole").items() if "topology" in name]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["demo-topology"],
        "verbs": ["get", "patch"],
    }
    assert rule in of_kind(manifests, "Role")["demo-syncer"]["rules"]
    assert "data" not in of_kind(manifests, "ConfigMap")["demo-topology"]
    pod = of_kind(manifests, "StatefulSet")["demo-slurmctld"]["spec"]["template"]["spec"]
    assert {"name": "topology", "configMap": {"name": "demo-topology", "optional": True}} in pod["volumes"]
    mount = {"name": "topology", "mountPath": "/topology", "readOnly": True}
    assert mount in next(each for each in pod["containers"] if each["name"] == "slurmctld")["volumeMounts"]


@pytest.mark.parametrize("plugins", [["tree"], ["tree", "block"], ["block"]])
def test_until_the_syncer_knows_of_nodes_the_files_are_those_that_it_would_write(plugins):
    data = slurm_config({"topology": {"source": "auto", "plugins": plugins, "blockSizes": [4, 8]}})
    assert data["topology.yaml"] == files.write_yaml(plugins, [], [4, 8])
    assert "SwitchName" not in data["topology.conf"]
    assert f"TopologyPlugin=topology/{plugins[0]}\n" in data["slurm.conf"]


def test_a_hand_written_file_is_read_again_when_nodes_have_registered():
    found = settings(TREE)
    assert (found.source, found.file_name, found.config_map) == ("", "topology.conf", "demo-topology")
    assert found.file == "SwitchName=a Nodes=n1\n"
    assert not [name for name in of_kind(render("slurm", TREE), "ClusterRole") if "topology" in name]


def test_each_source_that_values_may_name_is_known():
    for source in ("auto", "topograph", "gke", "eks", "oke", "coreweave", "nebius", "gpu-clique", "labels"):
        values = {"topology": {"source": source, "levels": ["rack"]}}
        assert Places.sources_of(settings(values)), source
    rules = of_kind(render("slurm", {"topology": {"source": "kueue", "name": "racks"}}), "ClusterRole")
    (role,) = [role for name, role in rules.items() if "topology" in name]
    assert role["rules"][1]["resourceNames"] == ["racks"]
    rules = of_kind(render("slurm", {"topology": {"source": "configMap", "name": "topograph"}}), "Role")
    assert ["topograph"] in [rule.get("resourceNames") for rule in rules["demo-syncer"]["rules"]]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"topology": {"source": "auto"}} | TREE,
            "topology.source is set, and slurmConfig.files has topology.conf, too: leave out one of the two",
        ),
        (
            {"topology": {"source": "auto"}, "slurmConfig": {"conf": {"TopologyPlugin": "topology/tree"}}},
            "slurmConfig.conf.TopologyPlugin: with topology.source, leave it out and set topology.plugins",
        ),
        (
            {"topology": {"source": "auto", "plugins": ["block"]}},
            "topology.plugins: block needs topology.blockSizes. Their smallest number is the number of nodes of the "
            "small",
        ),
        ({"topology": {"source": "labels"}}, "topology.source: labels needs topology.levels: the keys of the labels"),
        (
            {"topology": {"source": "kueue"}},
            "kueue needs topology.name, the name of the Topology of Kueue",
        ),
        (
            {"topology": {"source": "configMap"}},
            "configMap needs topology.name, the name of the ConfigMap",
        ),
        (
            {"topology": {"source": "slinky"}},
            "topology.source: slinky needs a topology.yaml, which describes the units that the Nodes name: add it",
        ),
        (
            {"slurmConfig": {"files": {"load_topology.sh": "x"}}},
            "slurmConfig.files: the chart makes load_topology.sh itself",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(values, says):
    with pytest.raises(Refused) as told:
        render("slurm", values)
    assert says in str(told.value)
