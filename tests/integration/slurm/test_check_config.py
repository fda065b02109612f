"""What the parts of Slurm say to new values, each in its own image, before anything is changed."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import ROOT, RealAccounting, RealSlurm, give
from tests.integration.slurm.spank import build_plugin
from tests.roots import RELEASE, SUITE, unpack
from tests.unit.charts.rendering import Manifest, of_kind, render

pytestmark = pytest.mark.integration

Values = dict[str, object]
ALONE: Final = """
ip link set lo up
ip link add eth0 type veth peer name peer0
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip link set peer0 up
"""
ENTER: Final = """
mkdir -p "$1/config"
mount --rbind "$1" "$1"
mount -o remount,ro,bind "$1" # as a container has it
mount --bind /dev "$1/dev"
mount --bind "$2" "$1/config"
for folder in etc/slurm run tmp; do mount -t tmpfs -o mode=755,uid=401,gid=401 tmpfs "$1/$folder"; done
exec chroot --userspec=401:401 "$1" "${@:3}"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check") / "root"
    unpack(SUITE, ("slurmctld", "slurmdbd", "slurmd", "login"), folder)
    return folder


def container_of(manifests: Sequence[Manifest], job: str, name: str) -> tuple[Manifest, dict[str, dict[str, bytes]]]:
    """A container that checks, and the files that it is given, by folder; of the site's own ConfigMaps none."""
    pod = of_kind(manifests, "Job")[job]["spec"]["template"]["spec"]
    (container,) = [each for each in pod["containers"] if each["name"] == name]
    maps = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    mounted = {mount["mountPath"]: maps[mount["name"]] for mount in container["volumeMounts"] if mount["name"] in maps}
    made = of_kind(manifests, "ConfigMap")
    return container, {folder: _files(made.get(name, {})) for folder, name in mounted.items()}


def _files(config_map: Manifest) -> dict[str, bytes]:
    """The files of a ConfigMap as a volume shows them."""
    texts = {name: text.encode() for name, text in config_map.get("data", {}).items()}
    return texts | {name: base64.b64decode(text) for name, text in config_map.get("binaryData", {}).items()}


def check(
    root: Path, folder: Path, daemon: str, values: Mapping[str, object], *, before: str = "", job: str = ""
) -> tuple[int, str]:
    """Exit code and words, with what the chart gives to the Job that checks, `before` run as root in the namespaces."""
    job = job or ("demo-check-compute" if daemon == "slurmd" else "demo-check")
    container, given = container_of(render("slurm", values), job, daemon)
    folder.mkdir()
    for where, files in ({"/config": {}} | given).items():
        there = folder if where == "/config" else Path(tempfile.mkdtemp(dir=folder.parent))
        there.chmod(0o755)
        for name, content in files.items():
            (there / name).write_bytes(content)
        before += "" if there == folder else f'mkdir -p "$1{where}"\nmount --bind {there} "$1{where}"\n'
    command = container["command"]
    return run(["--net"], ALONE + before + ENTER, root, folder, *command)


def run(namespaces: Sequence[str], script: str, *words: Path | str) -> tuple[int, str]:
    """Exit code and words of a script as root."""
    argv = ["unshare", "--mount", "--uts", *namespaces, "bash", "-ec", script, "-", *map(str, words)]
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmdbd", "slurmd", "login"])
def test_the_chart_as_it_is_is_accepted(root: Path, tmp_path: Path, daemon: str):
    assert check(root, tmp_path / "config", daemon, {})[::-1] == ("", 0)


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmd", "login"])
def test_a_tree_of_labels_is_accepted_before_any_node_is_known(root: Path, tmp_path: Path, daemon: str):
    assert check(root, tmp_path / "config", daemon, {"topology": {"source": "auto"}}) == (0, "")


def test_blocks_are_refused_by_name_where_slurm_cannot_have_them(root: Path, tmp_path: Path):
    values = {"topology": {"source": "auto", "plugins": ["tree", "block"], "blockSizes": [4]}}
    values["partitions"] = {"nvl": {"conf": {"Topology": "block"}}}
    code, words = check(root, tmp_path / "config", "slurmctld", values)
    says = "topology.plugins: block needs Slurm 26.05: slurmctld 24.11 ends if a block has fewer nodes than its size"
    assert (code, says in words) == ((3, True) if RELEASE == "24.11" else (0, False)), words


def test_what_only_the_database_knows_is_accepted(root: Path, tmp_path: Path):
    weights = {"CPU": 1, "GRES/gpu": 16}
    of_partition = {"TRESBillingWeights": weights, "QOS": "gpu", "AllowQos": ["normal"], "AllowAccounts": ["chem"]}
    values = {
        "partitions": {"low": {"conf": of_partition}},
        "slurmConfig": {"conf": {"PriorityWeightTRES": weights, "PriorityWeightQOS": 10, "PreemptType": "preempt/qos"}},
    }
    assert check(root, tmp_path / "config", "slurmctld", values) == (0, "")


def test_who_wants_few_words_in_the_log_is_accepted(root: Path, tmp_path: Path):
    assert check(root, tmp_path / "ctld", "slurmctld", {"slurmConfig": {"conf": {"SlurmctldDebug": "error"}}}) == (
        0,
        "",
    )
    quiet = {"accounting": {"slurmdbd": {"conf": {"DebugLevel": "error"}}}}
    assert check(root, tmp_path / "dbd", "slurmdbd", quiet) == (0, "")


TREE: Final = {"TopologyPlugin": "topology/tree"}
UNITS: Final = """\
- topology: default
  cluster_default: true
  tree:
    switches:
      - {switch: s1, nodes: "n[1-4]"}
"""


@pytest.mark.parametrize(
    ("daemon", "values", "said"),
    [
        ("slurmctld", {"slurmConfig": {"conf": {"KilWait": 30}}}, "KilWait"),
        ("slurmctld", {"slurmConfig": {"conf": {"SelectTypeParameters": ["CR_Cpus"]}}}, "CR_Cpus"),
        ("slurmctld", {"slurmConfig": {"conf": {"SlurmctldDebug": "error", "KilWait": 30}}}, "KilWait"),
        ("slurmctld", {"partitions": {"low": {"conf": {"MaxNode": 3}}}}, "MaxNode"),
        ("slurmctld", {"slurmConfig": {"conf": {"PreemptType": "preempt/nothing"}}}, "preempt/nothing"),
        (
            "slurmctld",
            {"slurmConfig": {"conf": TREE, "files": {"topology.conf": "SwitchName=s1 Nodse=n[1-4]\n"}}},
            "Nodse",
        ),
        (
            "slurmctld",
            {"slurmConfig": {"conf": TREE, "files": {"topology.conf": "SwitchName=s1 Switches=s2\n"}}},
            "child (s2)",
        ),
        pytest.param(
            "slurmctld",
            {"slurmConfig": {"conf": TREE, "files": {"topology.yaml": UNITS.replace("switches:", "switchs:")}}},
            "No switches configured",
            marks=pytest.mark.skipif(RELEASE == "24.11", reason="reads no topology.yaml"),
        ),
        ("slurmdbd", {"accounting": {"slurmdbd": {"conf": {"PurgeJobsAfter": "24month"}}}}, "PurgeJobsAfter"),
        ("slurmdbd", {"accounting": {"slurmdbd": {"conf": {"PurgeJobAfter": "2years"}}}}, "PurgeJobAfter"),
    ],
)
def test_what_slurm_cannot_work_with_is_said_in_its_words(
    root: Path, tmp_path: Path, daemon: str, values: dict[str, object], said: str
):
    code, words = check(root, tmp_path / "config", daemon, values)
    assert code == 3, words
    assert words.startswith(f"{daemon} does not start on these values:\n")
    assert said in words


@pytest.mark.parametrize("conf", [TREE, {}], ids=["with its plugin", "alone"])
@pytest.mark.parametrize("daemon", ["slurmctld", "slurmd"])
def test_a_topology_that_this_slurm_would_not_read_is_refused_by_name(
    root: Path, tmp_path: Path, daemon: str, conf: dict[str, str]
):
    """24.11 would wait a minute for a topology.conf, and then end; without the plugin it would have no topology."""
    values = {"slurmConfig": {"conf": conf, "files": {"topology.yaml": UNITS}}}
    code, words = check(root, tmp_path / "config", daemon, values)
    says = "slurmConfig.files: topology.yaml needs Slurm 26.05: 24.11 reads only topology.conf"
    assert (code, says in words) == ((3, True) if RELEASE == "24.11" else (0, False)), words


NOWHERE: Final = "/nowhere/ours.sh"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"slurmConfig": {"conf": {"TaskPlugin": "task/nothing"}}}, "cannot create task context for task/nothing"),
        ({"slurmConfig": {"conf": {"TaskPluginParam": "nothing"}}}, "Bad TaskPluginParam: nothing"),
        ({"slurmConfig": {"conf": {"NodeFeaturesPlugins": "node_features/own"}}}, "node_features plugin"),
        ({"slurmConfig": {"conf": {"AcctGatherProfileType": "acct_gather_profile/hdf5"}}}, "acct_gather_profile/hdf5"),
        ({"slurmConfig": {"conf": {"AcctGatherEnergyType": "acct_gather_energy/xcc"}}}, "acct_gather_energy/xcc"),
        ({"slurmConfig": {"files": {"acct_gather.conf": "Nonsense=1"}}}, "Nonsense"),
        pytest.param(
            {"slurmConfig": {"files": {"mpi.conf": "PMIxDebug=nonsense"}}},
            "PMIxDebug",
            marks=pytest.mark.skipif(SUITE == "sid", reason="has no PMIx that would read it"),
        ),
        (
            {"slurmConfig": {"files": {"plugstack.conf": "required /nowhere/spank_own.so"}}},
            "Failed to load plugin /nowhere/spank_own.so. Aborting.",
        ),
    ],
)
def test_what_slurmd_alone_reads_is_refused_in_its_words(root: Path, tmp_path: Path, values: Values, said: str):
    code, words = check(root, tmp_path / "config", "slurmd", values)
    assert code == 3, words
    assert words.startswith("slurmd of images.slurmd does not start on these values:\n")
    assert said in words


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"slurmConfig": {"files": {"plugstack.conf": "required /nowhere/spank_own.so"}}},
            "Failed to load plugin /nowhere/spank_own.so. Aborting.",
        ),
        (
            {"slurmConfig": {"conf": {"CliFilterPlugins": "cli_filter/own"}}},
            "cannot create cli_filter context for cli_filter/own",
        ),
    ],
)
def test_what_srun_alone_reads_is_refused_in_its_words(root: Path, tmp_path: Path, values: Values, said: str):
    code, words = check(root, tmp_path / "config", "login", values)
    assert code == 3, words
    assert words.startswith("srun of images.login does not start on these values:\n")
    assert said in words


@pytest.mark.parametrize(
    ("part", "conf", "said"),
    [
        ("slurmctld", {"MailProg": NOWHERE}, f"MailProg={NOWHERE}: there is no such program"),
        ("slurmctld", {"PrologSlurmctld": NOWHERE}, f"PrologSlurmctld={NOWHERE}: there is no such program"),
        ("slurmd", {"TaskProlog": NOWHERE}, f"TaskProlog={NOWHERE}: there is no such program"),
        ("slurmd", {"HealthCheckProgram": NOWHERE}, f"HealthCheckProgram={NOWHERE}: there is no such program"),
        ("slurmd", {"MpiDefault": "nothing"}, "MpiDefault=nothing: there is no such plugin"),
        ("login", {"SrunProlog": NOWHERE}, f"SrunProlog={NOWHERE}: there is no such program"),
        ("login", {"MpiDefault": "nothing"}, "MpiDefault=nothing: there is no such plugin"),
    ],
)
def test_what_an_image_lacks_is_named(root: Path, tmp_path: Path, part: str, conf: dict[str, str], said: str):
    code, words = check(root, tmp_path / "config", part, {"slurmConfig": {"conf": conf}})
    assert (code, words) == (3, f"images.{part} lacks what these values name:\n  {said}\n")


def test_an_image_of_an_older_release_is_refused(root: Path, tmp_path: Path):
    """/tmp of its pods would be nobody's to write to, or anybody's to delete from."""
    older = 'mount --bind /dev/null "$1/usr/local/bin/take-scratch"\n'
    said = "compute.scratch: the image has no program take-scratch: build it again on the slurmd image of this release"
    refused = (3, f"images.slurmd lacks what these values name:\n  {said}\n")
    assert check(root, tmp_path / "config", "slurmd", {}, before=older) == refused


@pytest.mark.parametrize(
    ("part", "program", "said"),
    [
        ("login", "start-sackd", "login: start-sackd of the image is older: build the image"),
        ("slurmctld", "weigh-users", "job_submit.lua: the image has no program weigh-users: build it"),
    ],
)
def test_an_image_without_a_program_that_the_chart_relies_on_is_refused(
    root: Path, tmp_path: Path, part: str, program: str, said: str
):
    older = f'mount --bind /dev/null "$1/usr/local/bin/{program}"\n'
    refused = f"images.{part} lacks what these values name:\n  {said} again on the {part} image of this release\n"
    assert check(root, tmp_path / "config", part, {}, before=older) == (3, refused)


def test_an_image_that_makes_no_tmp_for_each_job_is_refused(root: Path, tmp_path: Path):
    older = 'mount --bind /dev/null "$1/usr/local/bin/start-slurmd"\n'
    said = (
        "slurmConfig.privateTmp: start-slurmd of the image is older: build the image again on the slurmd image of this "
        "release"
    )
    refused = (3, f"images.slurmd lacks what these values name:\n  {said}\n")
    assert check(root, tmp_path / "config", "slurmd", {}, before=older) == refused
    shared = {"slurmConfig": {"privateTmp": False}}
    assert check(root, tmp_path / "shared", "slurmd", shared, before=older) == (0, "")


def test_a_plugin_that_the_image_has_is_loaded_and_one_of_a_volume_is_not_looked_for(root: Path, tmp_path: Path):
    plugin = build_plugin(root, "usr/local/lib/spank_own.so")
    lines = f"required /{plugin}\nrequired /opt/site/spank_other.so\n"
    site = {"slurmConfig": {"files": {"plugstack.conf": lines}, "conf": {"TaskProlog": "/opt/site/ours.sh"}}}
    (words,) = {check(root, tmp_path / part, part, site)[1] for part in ("login",)}
    assert "Failed to load plugin /opt/site/spank_other.so" in words
    volume = {"volumes": [{"name": "site", "hostPath": {"path": "/opt/site"}}]}
    mounted = site | {"compute": volume | {"volumeMounts": [{"name": "site", "mountPath": "/opt/site"}]}}
    assert check(root, tmp_path / "config", "slurmd", mounted) == (0, "")
    shared = site | {"sharedFolders": {"/opt/site": {"nfs": {"server": "nas", "path": "/site"}}}}
    assert check(root, tmp_path / "slurmd", "slurmd", shared) == (0, "")
    assert check(root, tmp_path / "shared", "login", shared) == (0, "")


def test_the_page_on_pyxis_is_refused_until_the_images_have_it(root: Path, tmp_path: Path):
    (text,) = re.findall(r"(?s)```yaml\n(.*?)```", (ROOT / "docs/tasks/containers-for-jobs.md").read_text())
    values = yaml.safe_load(text)
    assert set(values.pop("images")) == {"slurmd", "login"}  # which are here
    file = values["slurmConfig"]["files"]["plugstack.conf"].split()[1]
    for part, program in (("slurmd", "slurmd"), ("login", "srun")):
        code, words = check(root, tmp_path / f"without-{part}", part, values)
        assert code == 3, words
        assert words.startswith(f"{program} of images.{part} does not start on these values:\n")
        assert f"Failed to load plugin {file}. Aborting." in words
    try:
        build_plugin(root, file.lstrip("/"))
        for part in ("slurmd", "login"):
            assert check(root, tmp_path / f"with-{part}", part, values) == (0, "")
    finally:
        (root / file.lstrip("/")).unlink(missing_ok=True)


def test_cgroups_of_the_machine_are_not_asked_for(root: Path, tmp_path: Path):
    held = {"cgroup": "auto", "privateTmp": "auto", "conf": {"TaskPlugin": "task/affinity"}}
    assert check(root, tmp_path / "config", "slurmd", {"slurmConfig": held}) == (0, "")


def test_windows_of_jobs_do_not_ask_for_them_either(root: Path, tmp_path: Path):
    assert check(root, tmp_path / "config", "slurmd", {"login": {"ssh": {"x11": True}}}) == (0, "")


def test_a_daemon_that_says_nothing_is_named_after_30_seconds(root: Path, tmp_path: Path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/bash\nexec tail -f /dev/null\n")
    silent.chmod(0o755)
    at_once = f'mount --bind {silent} "$1/usr/sbin/slurmdbd"\nmount --bind "$1/usr/bin/true" "$1/usr/bin/sleep"\n'
    assert check(root, tmp_path / "config", "slurmdbd", {}, before=at_once) == (
        1,
        "check-config: slurmdbd has not read its configuration within 30 s: the machine is slow, or slurmdbd waits for "
        "something\n",
    )


def test_process_ids_of_a_job_of_its_own_are_refused_by_a_release_that_has_none(root: Path, tmp_path: Path):
    values = {"slurmConfig": {"privatePids": True}}
    code, words = check(root, tmp_path / "config", "slurmctld", values)
    assert (code, "NamespaceType" in words) == ((3, True) if RELEASE in ("24.11", "25.05") else (0, False)), words


def test_keys_that_slurm_cannot_read_are_refused(root: Path, tmp_path: Path):
    key = {"alg": "HS256", "kty": "oct", "k": base64.b64encode(bytes(64)).decode()}
    try:
        give(root / "keys/slurm.jwks", json.dumps({"keys": [key]}).encode(), 401)
        code, words = check(root, tmp_path / "without", "slurmctld", {})
        assert (code, "failed to load kid field" in words, "check-config: line" in words) == (3, True, False), words
        give(root / "keys/slurm.jwks", json.dumps({"keys": [{**key, "kid": "old"}]}).encode(), 401)
        assert check(root, tmp_path / "with", "slurmctld", {}) == (0, "")
    finally:
        shutil.rmtree(root / "keys", ignore_errors=True)


@pytest.mark.skipif(SUITE != "trixie", reason="is earlier than no other release")
def test_no_earlier_slurm_follows_a_later_one(root: Path, tmp_path: Path):
    (tmp_path / "later").mkdir()
    later = RealSlurm(tmp_path / "later", "sid")
    try:
        assert wait_until(lambda: " is UP" in later.run_as("slurm", "scontrol", "ping")[1], timeout_s=60), later.logs()
        key = root / "keys/slurm.key"
        key.parent.mkdir(exist_ok=True)
        shutil.copy(later.root / "etc/slurm/slurm.key", key)
        os.chown(key, 401, 401)
        (tmp_path / "config").mkdir()
        shutil.copy(later.root / "etc/slurm/slurm.conf", tmp_path / "config")
        script = ROOT / "charts/slurm/files/check-config.sh"
        shutil.copy(script, tmp_path / "config/check-config")
        code, words = run([], ENTER, root, tmp_path / "config", "bash", "/config/check-config", "slurmctld")
    finally:
        later.stop()
        shutil.rmtree(root / "keys", ignore_errors=True)
    assert code == 3, words
    assert re.match(
        r"slurmctld (26\.05\.\d+) runs here, and slurmctld (24\.11\.\d+) cannot read its saved state\. Keep "
        r"images\.slurmctld and images\.slurmdbd\nat \1, or restore a backup of \2 into a new namespace: ",
        words,
    ), words


def test_a_qos_of_a_partition_that_the_running_slurm_does_not_have_is_refused(root: Path, tmp_path: Path):
    values = {"accounts": {"wanted": {"qos": {"soon": {}, "later": {}}}}}
    env = container_of(render("slurm", values), "demo-check", "slurmctld")[0]["env"]
    assert env == [{"name": "SUNKPY_QOS", "value": "later soon"}]
    accounting = RealAccounting(tmp_path / "runs", SUITE)
    slurm = RealSlurm(tmp_path / "runs", SUITE, accounting)
    words = {}
    try:
        asked = ("scontrol", "show", "assoc_mgr", "flags=qos")
        assert wait_until(lambda: bool(accounting.sacctmgr("show", "cluster")), timeout_s=60), slurm.logs()
        accounting.sacctmgr("add", "qos", "there")
        assert wait_until(lambda: "QOS=there(" in slurm.run_as("slurm", *asked)[1], timeout_s=60), slurm.logs()
        give(root / "keys/slurm.key", (slurm.root / "etc/slurm/slurm.key").read_bytes(), 401)
        for qos in ("nosuch", "there", "There", "soon"):
            config = tmp_path / qos
            config.mkdir()
            conf = (slurm.root / "etc/slurm/slurm.conf").read_text()
            (config / "slurm.conf").write_text(f"{conf}PartitionName=gpu Nodes=ALL QOS={qos} MaxTime=60\n")
            shutil.copy(ROOT / "charts/slurm/files/check-config.sh", config / "check-config")
            check = ("env", "SUNKPY_QOS=later soon", "bash", "/config/check-config", "slurmctld")
            words[qos] = run([], ENTER, root, config, *check)
    finally:
        accounting.stop()
        slurm.stop()
        shutil.rmtree(root / "keys", ignore_errors=True)
    assert words.pop("nosuch") == (
        3,
        "partitions.gpu.conf.QOS: Slurm has no QoS nosuch, and slurmctld would not start. "
        "Describe it in accounts.wanted.qos,\n"
        "make it with sacctmgr, or name one of these: later, normal, soon, there\n",
    )
    assert not [said for _, said in words.values() if "has no QoS" in said], words


@pytest.mark.skipif(SUITE != "trixie", reason="is later than no other release")
def test_no_part_is_later_than_the_one_above_it(root: Path, tmp_path: Path):
    """In Slurm's order: slurmdbd, slurmctld, all others."""
    later = tmp_path / "root"
    unpack("sid", ("slurmctld", "slurmd", "slurmrestd", "login"), later)

    def checked(**of_suite: str) -> list[tuple[str, int, str]]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / "order").mkdir()
        os.chown(folder / "order", 401, 401)
        values = {"images": {name: f"r.example.com:5000/{name}:{suite}-1" for name, suite in of_suite.items()}}
        shared = f'mkdir -p "$1/order"\nmount --bind {folder}/order "$1/order"\n'
        roots = {name: later if suite == "sid" else root for name, suite in of_suite.items()}
        return [
            (name, *check(roots[name], folder / name, name, values, before=shared, job="demo-check"))
            for name in ("slurmdbd", "slurmctld", "slurmd", "slurmrestd", "login")
            if name in of_suite and (roots[name] == later or name in ("slurmdbd", "slurmctld"))
        ]

    def refused(name: str, above: str) -> str:
        return (
            rf"images\.{name} is Slurm 26\.05\.\d+, but images\.{above} is only 24\.11\.\d+: images\.{above} must not "
            rf"be older than images\.{name}\. Upgrade images\.{above} first, or both together: docs/tasks/upgrade\.md\n"
        )

    assert checked(slurmdbd="trixie", slurmctld="trixie", slurmd="sid")[:2] == [
        ("slurmdbd", 0, ""),
        ("slurmctld", 0, ""),
    ]
    ((_, code, words),) = checked(slurmdbd="trixie", slurmctld="sid")[1:]
    assert (code, bool(re.fullmatch(refused("slurmctld", "slurmdbd"), words))) == (3, True), words
    for name, code, words in checked(
        slurmdbd="trixie", slurmctld="trixie", slurmd="sid", slurmrestd="sid", login="sid"
    )[2:]:
        assert (code, bool(re.fullmatch(refused(name, "slurmctld"), words))) == (3, True), words
