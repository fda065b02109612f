"""The device plugin of the chart: what is rendered with it, and who may ask for what it hands out."""

import pytest
import yaml

from sunkpy.core.nodeset.asking import NOBODY
from sunkpy.deviceplugin.settings import PluginSettings
from sunkpy.runtime.settings import load
from tests.unit.charts.rendering import Refused, of_kind, render

GPU = "nvidia.com/gpu"


def rendered(plugin=None, **scheduler):
    return render("slurm", {"scheduler": {"gpuSharing": "plugin", "devicePlugin": plugin or {}} | scheduler})


def test_each_node_has_a_plugin_that_may_list_pods_and_no_more():
    manifests = rendered({"nodeSelector": {"gpus": "yes"}})
    spec = of_kind(manifests, "DaemonSet")["demo-device-plugin"]["spec"]["template"]["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"gpus": "yes"}, [{"operator": "Exists"}])
    assert spec["serviceAccountName"] == "demo-device-plugin"
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]
    rules = of_kind(manifests, "ClusterRole")["research:demo-device-plugin"]["rules"]
    assert rules == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]


def test_plugin_and_scheduler_mean_the_same_resource_and_the_same_names(tmp_path):
    manifests = rendered(
        {"resource": "amd.com/gpu", "pretend": 8},
        gpuResources={"amd.com/gpu": "gpu", GPU: None},
        name="a",
        aliases=["b", "a"],
    )
    maps = of_kind(manifests, "ConfigMap")
    (tmp_path / "config.yaml").write_text(maps["demo-device-plugin"]["data"]["config.yaml"])
    settings = load(tmp_path / "config.yaml", PluginSettings)
    assert (settings.resource, settings.schedulers, settings.pretend) == ("amd.com/gpu", ("a", "b"), 8)
    scheduler = yaml.safe_load(maps["demo-scheduler"]["data"]["config.yaml"])
    assert (scheduler["gpuSharing"], scheduler["pluginResource"]) == ("plugin", "amd.com/gpu")


def test_pods_that_ask_for_what_it_hands_out_name_this_scheduler():
    (policy,) = [
        each
        for name, each in of_kind(rendered(), "ValidatingAdmissionPolicy").items()
        if name == "research-demo-device-plugin"
    ]
    (validation,) = policy["spec"]["validations"]
    named = "object.spec.?schedulerName.orValue('')"
    is_placeholder = f"{named} == '{NOBODY}' && object.spec.?nodeName.orValue('') == ''"
    assert validation["expression"] == f'{named} in ["demo"] || {is_placeholder}'
    assert validation["message"] == f"Slurm hands out {GPU} here: set schedulerName: demo in the spec of the pod"


def test_a_resource_that_slurm_does_not_know_is_refused():
    with pytest.raises(Refused, match=r"the values do not say what Slurm calls amd\.com/gpu: add it to"):
        rendered({"resource": "amd.com/gpu"})


def test_gpus_that_it_does_not_hand_out_are_refused():
    """The vendor's plugin is off, and next to it would choose for itself."""
    with pytest.raises(Refused, match=r"scheduler\.gpuResources has nvidia\.com/mig-1g\.5gb, which sunkpy's device"):
        rendered(gpuResources={"nvidia.com/mig-1g.5gb": "gpu:1g.5gb"})
    rendered(gpuResources={"example.com/nic": "nic"})


@pytest.mark.parametrize("sharing", ["exclusive", "count"])
def test_otherwise_there_is_none(sharing):
    manifests = render("slurm", {"scheduler": {"gpuSharing": sharing}})
    assert not [each for each in manifests if "device-plugin" in each["metadata"]["name"]]
