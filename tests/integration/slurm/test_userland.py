"""What people look for where they log in, and find in their jobs as well: tools, the manual, a client of Slurm."""

from __future__ import annotations

import gzip
import importlib.metadata
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

import pytest
import yaml

from devcluster.waiting import wait
from tests.integration.slurm.daemons import ROOT, give, start_in
from tests.integration.slurm.site import PEOPLE, Site
from tests.roots import RELEASE, SUITE, unpack

pytestmark = pytest.mark.integration

SONAME: Final = re.compile(r"lib.+\.so(\.\d+)?$")
PACKAGE: Final = re.compile(r"^(\S+)\t(.*)$", re.MULTILINE)

TRIES: Final = {
    "git": "git init -q -b main repo && git -C repo status --branch",
    "vim": "vim -es -c 'call writefile([\"written\"], \"by-vim\")' -c 'qa!' < /dev/null; cat by-vim",
    "tmux": "tmux -L own new-session -d 'sleep 9' && tmux -L own list-sessions && tmux -L own kill-server",
    "rsync": "echo x > from && rsync -a from to && cat to",
    "wget": "wget --version",
    "make and gcc": "printf 'int main(void) { return 0; }' > hello.c && make hello && ./hello",
    "make and g++": "printf '#include <vector>\\nint main() { std::vector<int> none; }' > hi.cc && make hi && ./hi",
    "gfortran": "printf 'print *, 42\\nend\\n' > it.f90 && gfortran -o it it.f90 && ./it | grep 42",
    "the manual": "man sbatch | grep -e --array; man slurm.conf | grep PriorityWeightAge; man git | head -1",
    "completion": ". /usr/share/bash-completion/bash_completion && _comp_load sbatch && complete -p sbatch",
    "venv": "python3 -m venv own && own/bin/pip --version",
    "htop": "htop --version",
    "archives": "echo x > a && xz a && bzip2 -k a.xz && zstd -q a.xz && zip -q a.zip a.xz && unzip -p a.zip | xz -d",
    "shares": "echo x > f && setfacl -m u:nobody:r f && getfacl f | grep user:nobody:r",
    "bc": "[ $(echo '6 * 7' | bc) = 42 ]",
    "file, tree, time": "file /etc/passwd | grep ASCII && tree --version && /usr/bin/time -f %e true",
    "gdb": "gdb --batch -ex 'print 6 * 7' | grep 42",
    "strace": "strace --version | head -1",
    "lsof": "lsof -v 2>&1 | grep revision",
    "the network": "ip address show lo | grep 127.0.0.1 && ping -V && nc -h 2>&1 | head -1 && host -V 2>&1",
    "the machine": "numactl --show | grep cpubind && lstopo --of console | grep -i machine && lspci --version",
    "modules": ". /etc/profile.d/modules.sh && module avail && module load use.own && module list",
}
"""As somebody in a folder of their own; each fails where the tool is not there."""


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("login") / "root"
    unpack(SUITE, ("login",), root)
    return root


@pytest.fixture(scope="module")
def slurmd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("slurmd") / "root"
    unpack(SUITE, ("slurmd",), root)
    return root


@pytest.fixture
def folder(site: Site) -> Iterator[Path]:
    """A folder of ann, which she has on all nodes."""
    made = site.slurm.root / "home/ann/userland"
    made.mkdir()
    os.chown(made, PEOPLE["ann"], PEOPLE["ann"])
    yield made
    shutil.rmtree(made)


def test_an_image_lists_its_packages(login: Path):
    listed = ("dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package}=${Version}\\n")
    done = subprocess.run(["chroot", str(login), *listed], capture_output=True, text=True, check=True)
    installed = {line[3:] for line in done.stdout.splitlines() if line.startswith("ii")}
    document = json.loads((login / "usr/share/sunkpy/sbom.spdx.json").read_text())
    assert {f"{each['name']}={each['versionInfo']}" for each in document["packages"]} == installed
    (git,) = [each for each in document["packages"] if each["name"] == "git"]
    (ref,) = git["externalRefs"]
    url = f"pkg:deb/debian/git@{git['versionInfo'].replace('+', '%2B')}?arch=amd64"
    assert ref == {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}
    described = {each["relatedSpdxElement"] for each in document["relationships"]}
    assert described == {each["SPDXID"] for each in document["packages"]}


def test_no_program_makes_who_runs_it_where_people_log_in_somebody_else(login: Path):
    """As docs/rights.md says: neither setuid nor setgid."""
    modes = {path: path.lstat().st_mode for path in login.rglob("*")}
    files = {path: mode for path, mode in modes.items() if stat.S_ISREG(mode)}
    assert len(files) > 1000
    assert [path for path, mode in files.items() if mode & (stat.S_ISUID | stat.S_ISGID)] == []


def _libraries(root: Path) -> set[str]:
    """The libraries in a root, by the names with which programs are linked."""
    folders = (root / "usr/lib").glob("*-linux-gnu")
    return {path.name for folder in folders for path in folder.iterdir() if SONAME.match(path.name)}


def _packages_below(package: str, root: Path) -> set[str]:
    """The package and all packages in the root on which it depends."""
    done = subprocess.run(
        ["chroot", root, "dpkg-query", "-W", "-f", r"${Package}\t${Depends}, ${Pre-Depends}\n"],
        capture_output=True,
        text=True,
        check=True,
    )
    needs = {name: set(re.findall(r"[a-z0-9][a-z0-9+.-]+", rest)) for name, rest in PACKAGE.findall(done.stdout)}
    found, left = set[str](), {package}
    while left:
        found |= left
        left = {each for name in left for each in needs[name] if each in needs} - found
    return found


def _libraries_below(package: str, root: Path) -> set[str]:
    """The libraries of a package and of all packages on which it depends."""
    names = _packages_below(package, root)
    lists = [path for path in (root / "var/lib/dpkg/info").glob("*.list") if path.stem.split(":")[0] in names]
    return {Path(line).name for path in lists for line in path.read_text().splitlines()}


def test_what_a_program_finds_where_it_is_made_it_finds_in_a_job(login: Path, slurmd: Path):
    """Except libraries that came with sssd, which only daemons and PAM use."""
    assert _libraries(login) - _libraries(slurmd) - _libraries_below("sssd-ldap", login) == set()


def _script(tool: str) -> str:
    return f"set -eo pipefail; export TERM=xterm-256color LANG=C.UTF-8 MANPAGER=cat; {TRIES[tool]}"


@pytest.mark.parametrize("tool", TRIES)
def test_a_tool_answers_where_people_log_in(login: Path, tool: str):
    home = login / "tmp" / tool.replace(" ", "-")
    home.mkdir()
    home.chmod(0o777)
    into = 'mount --rbind /dev "$1/dev"; exec chroot --userspec=user1:user1 "$1" bash -c "cd; $2"'
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", into, "-", str(login), _script(tool)]
    env = {"PATH": "/usr/bin:/bin:/usr/sbin", "HOME": f"/tmp/{home.name}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tool", TRIES)
def test_a_tool_answers_in_a_job(site: Site, folder: Path, tool: str):
    (folder / "try").write_text(f"#!/bin/bash\nexport HOME=$PWD; {_script(tool)}\n")
    (folder / "try").chmod(0o755)
    code, said = site.shell("ann", "cd ~/userland && srun -w c1 ./try")
    assert code == 0, said


def test_a_function_given_to_submitit_returns_its_value_from_a_job(site: Site, folder: Path):
    for name in ("submitit", "cloudpickle", "typing_extensions"):
        _copy(importlib.metadata.distribution(name), folder / "lib")
    (folder / "run.py").write_text(
        "import os, submitit\n"
        "executor = submitit.AutoExecutor(folder='log')\n"
        "executor.update_parameters(timeout_min=1, slurm_partition='low', mem_gb=1)\n"
        "jobs = executor.map_array(lambda n: (n * n, os.environ['SLURM_JOB_USER']), [2, 3])\n"
        "print([job.result() for job in jobs])\n"
    )
    script = "cd ~/userland && export PYTHONPATH=$PWD/lib && python3 run.py"
    code, said = site.shell("ann", script)
    assert (code, said.splitlines()[-1:]) == (0, ["[(4, 'ann'), (9, 'ann')]"]), said


def _copy(package: Distribution, to: Path) -> None:
    """What an installed package consists of, which is Python alone."""
    for file in package.files or ():
        if file.suffix == ".py":
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(package.locate_file(file)), to / file)


def test_commands_in_a_login_pod_load_the_plugins_of_its_template(login: Path):
    give(login / "keys/slurm.key", bytes(64), 401)
    slurm_conf = "ClusterName=it\nSlurmctldHost=localhost(127.0.0.1)\nAuthType=auth/slurm\nCredType=cred/slurm\n"
    (login / "etc/slurm/slurm.conf").write_text(slurm_conf)
    (login / "etc/slurm/plugstack.conf").write_text("include /etc/sunkpy/plugstack.conf\n")
    for folder in ("run/login", "run/slurm"):
        (login / folder).mkdir()
    for folder in ("run/login", "run/slurm", "etc/slurm"):
        os.chown(login / folder, 401, 401)
    env = {"SUNKPY_CONF_SERVER": "127.0.0.1:1", "SUNKPY_PLUGSTACK": "required /nowhere/spank_own.so"}
    sackd = start_in(login, "start-sackd", 401, env=env)
    try:
        has_them = (login / "run/login/site-plugstack.conf").exists
        wait(has_them, timeout_s=30, what="sackd's container has written them")
    finally:
        sackd.kill()
        sackd.wait()
    (login / "run/login/site-plugstack.conf").rename(login / "run/slurm/site-plugstack.conf")
    command = ["chroot", str(login), "srun", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Failed to load plugin /nowhere/spank_own.so. Aborting." in done.stderr
    (login / "run/slurm/site-plugstack.conf").write_text("")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("section", "keys"),
    [("PARAMETERS", "slurmConfig.conf"), ("PARTITION CONFIGURATION", "partitions.<name>.conf")],
)
def test_the_classed_keys_are_those_of_the_manual(login: Path, section: str, keys: str):
    """Which tests/unit/charts/test_slurm_conf.py compares with what the chart makes of each."""
    text = gzip.decompress((login / "usr/share/man/man5/slurm.conf.5.gz").read_bytes()).decode()
    _, _, parameters = text.partition(f'.SH "{section}"')
    depth, titles = 0, set()
    for above, line in itertools.pairwise(parameters.partition("\n.SH")[0].splitlines()):
        depth += above.startswith(".RS") - above.startswith(".RE")
        if depth == 0 and above.startswith(".TP") and (name := re.match(r"\\fB([A-Za-z0-9]+)\\fR", line)):
            titles.add(name[1])
    files = (ROOT / "tests/unit/charts/slurm_conf_keys").glob("*.yaml")
    classed = {file.stem: set(yaml.safe_load(file.read_text())[keys]) for file in files}
    assert titles <= set().union(*classed.values())
    if SUITE not in ("source", "base"):  # of which any release may be
        assert titles == classed[RELEASE]
