"""What holds for each command: help with an example, forms for programs, completion, no colours where unwanted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import click.testing
import pytest
import yaml

from sunkpy.cli import complete, kubectl, main
from sunkpy.core import names
from tests.unit.cli.installed import installed
from tests.unit.cli.test_explain import configure
from tests.unit.cli.test_overview import shown

COMMANDS = [(), *((name,) for name in main.commands)]
WITH_FORMS = [
    ["status"],
    ["queue"],
    ["why-drained"],
    ["history", "n1"],
    ["doctor"],
    ["backups"],
    ["explain", "pod", "web", "-n", "default"],
    ["explain", "gang", "web", "-n", "default"],
    ["explain", "job", "100"],
    ["explain", "node", "n1"],
    ["explain", "nodeset", "gpu", "-n", "slurm"],
    ["drain", "n1", "--reason", "fan", "--dry-run"],
    ["undrain", "n1", "--dry-run"],
    ["roll", "gpu", "-n", "slurm"],
    ["verify", "n1", "--dry-run"],
    ["jobs", "hold", "100", "--dry-run"],
]
HEAVY = ("aiohttp", "kubernetes", "prometheus_client", "structlog", "kopf", "jwt")
OF_PROCESSES = ("prometheus_client", "kopf", "grpc", "aiohttp.web", "sunkpy.operator.main", "sunkpy.syncer")
BELOW_LIBRARIES = ("requests", "oauthlib", "jsonschema", "cryptography", "rich")
"""What libraries that a command uses would import besides: together as much as all that it needs."""
MODULES = {
    "grpcio": "grpc",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
    "pyjwt": "jwt",
    "pyyaml": "yaml",
}


@pytest.fixture
def world():
    world = installed()
    configure(world)
    world.slurm.add_job("PENDING", comment="", user="ann", state_reason="Priority")
    world.add_pod()
    checked = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    world.api.change("pods", "slurm", "slurmd-1", checked)
    return world


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_has_help_with_an_example(words):
    found = click.testing.CliRunner().invoke(main, [*words, "--help"])
    assert (found.exit_code, "Example: " in found.output) == (0, True)


def test_what_people_type_is_the_same_below_kubectl():
    assert kubectl.commands.items() <= main.commands.items()


def test_each_command_that_shows_something_also_has_forms_for_programs():
    has_forms = {name for name, command in main.commands.items() if any(p.name == "form" for p in command.params)}
    assert has_forms == {words[0] for words in WITH_FORMS}


@pytest.mark.parametrize("words", WITH_FORMS, ids=" ".join)
async def test_the_forms_say_the_same(world, tmp_path, words):
    for kind in ("ResourceClaim", "ResourceSlice"):
        world.api.define("resource.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=kind == "ResourceClaim")
    _, as_json = await shown(world, tmp_path, *words, "-o", "json")
    _, as_yaml = await shown(world, tmp_path, *words, "-o", "yaml")
    assert json.loads(as_json).keys() == yaml.safe_load(as_yaml).keys()
    code, wide = await shown(world, tmp_path, *words, "-o", "wide", env={"NO_COLOR": "1"})
    assert (code, "\x1b" in wide) == (0, False)


@pytest.mark.parametrize(
    "words", [["why-drained", "n9"], ["history", "n9"], ["explain", "node", "n9"], ["undrain", "n9"]]
)
async def test_what_is_not_there_has_one_form_in_all_commands(world, tmp_path, words):
    code, as_json = await shown(world, tmp_path, *words, "-o", "json")
    (explained,) = json.loads(as_json)["explanations"]
    assert (code, explained["isAbsent"], explained["subject"]) == (1, True, "Node n9")


def test_a_job_of_kubernetes_is_told_apart_from_a_job_of_slurm():
    found = click.testing.CliRunner().invoke(main, ["explain", "job", "training"])
    said = "'training' is not the number of a Slurm job; for a Job of Kubernetes: explain gang training"
    assert (found.exit_code, said in found.output) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_words(shell):
    found = click.testing.CliRunner().invoke(main, ["completion", shell])
    assert (found.exit_code, "_SUNKPY_COMPLETE" in found.output) == (0, True)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["explain", "no"], ["node", "nodeset"]),
        (["why"], ["why-drained"]),
        (["status", "--w"], ["--watch"]),
        ([], sorted(kubectl.commands)),
    ],
)
def test_kubectl_completes_words_too(words, found, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-sunk", *words])
    complete()
    assert capsys.readouterr().out.split() == [*found, ":4"]


def imported(modules: str, unwanted: tuple[str, ...]) -> str:
    """Which of these a new process has after it imported those."""
    code = f"import sys, {modules}; print(*(name for name in {unwanted} if name in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_command_that_asks_nobody_imports_nothing_that_takes_long():
    assert imported("sunkpy.cli", HEAVY) == ""


def test_a_command_that_asks_imports_nothing_that_only_processes_use():
    assert imported("sunkpy.cli.overview, sunkpy.cli.explain", OF_PROCESSES) == ""


def test_a_command_that_asks_imports_little_of_what_stands_below_its_libraries():
    commands = "sunkpy.cli.overview, sunkpy.cli.explain, sunkpy.cli.doctor, sunkpy.cli.drain, sunkpy.cli.support_bundle"
    assert imported(commands, BELOW_LIBRARIES) == ""
    assert imported("kubernetes, jwt, structlog", BELOW_LIBRARIES).split() == [*BELOW_LIBRARIES]


def test_what_is_installed_with_sunkpy_is_used_by_it():
    """An installed library costs time even unused: structlog imports rich wherever it finds it."""
    wanted = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    modules = [MODULES.get(name, name) for name in (re.split("[<>=]", each)[0] for each in wanted)]
    used = "\n".join(path.read_text() for path in Path("sunkpy").rglob("*.py"))
    assert [name for name in modules if not re.search(rf"^ *(import|from) {name}\b", used, re.MULTILINE)] == []
