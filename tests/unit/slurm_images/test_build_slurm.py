"""build-slurm makes nothing of a Slurm that was configured without what sunkpy needs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.slurm_images.test_build import tarball_of_slurm

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "build-slurm"
PLUGINS = ("accounting_storage_mysql", "auth_jwt", "auth_slurm", "cgroup_v2", "job_submit_lua", "mpi_pmix")
CONFIGURE = r"""#!/bin/bash
[[ " $* " == *" --enable-multiple-slurmd "* ]] || exit 1 # or slurmctld mistakes nodes of one address for each other
for option in "$@"; do case $option in --libdir=*) libraries=${option#*=} ;; esac; done
mkdir -p contribs/pam_slurm_adopt
printf 'install:\n\ttrue\n' > contribs/pam_slurm_adopt/Makefile
cat > Makefile << END
all:
install:
	mkdir -p \$(DESTDIR)/usr/sbin \$(DESTDIR)$libraries/slurm
	touch $(printf "\$(DESTDIR)$libraries/slurm/%s.so " PLUGINS)
	echo SLURMD > \$(DESTDIR)/usr/sbin/slurmd
	echo SLURMRESTD > \$(DESTDIR)/usr/sbin/slurmrestd
	echo PARSER > \$(DESTDIR)$libraries/slurm/http_parser.so
END
"""


def built(folder: Path, *, without: str = "", slurmd: str = "", slurmrestd: str = "", parser: str = "") -> str:
    """What is said of a Slurm whose programs and plugin name these libraries, as those do that are linked with them."""
    plugins = " ".join(each for each in PLUGINS if each != without)
    texts = {"PLUGINS": plugins, "SLURMD": slurmd, "SLURMRESTD": slurmrestd, "PARSER": parser}
    configure = CONFIGURE
    for word in sorted(texts, key=len, reverse=True):
        configure = configure.replace(word, texts[word])
    source = tarball_of_slurm(folder / "slurm.tar.bz2", configure=configure)
    architecture = folder / "dpkg-architecture"
    architecture.write_text("#!/bin/sh\necho of-this-machine\n")
    architecture.chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder)}
    argv = [PROGRAM, source, folder / "slurm"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    said = "".join(line for line in done.stderr.splitlines() if line.startswith("build-slurm:"))
    assert (done.returncode == 0) == (not said), done.stderr
    return said


@pytest.mark.parametrize(
    "http",
    [
        pytest.param({"slurmrestd": "libhttp_parser.so.2.9"}, id="24.11"),
        pytest.param({"parser": "libllhttp.so.9.4"}, id="26.05"),
    ],
)
def test_a_slurm_with_all_of_it_is_taken(tmp_path: Path, http: dict[str, str]):
    assert built(tmp_path, slurmd="libhwloc.so.15", **http) == ""


@pytest.mark.parametrize(
    ("lacks", "named"),
    [
        ({"without": "job_submit_lua"}, "job_submit_lua"),
        ({"slurmd": ""}, "hwloc"),
        ({"parser": ""}, "a parser of HTTP"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, lacks: dict[str, str], named: str):
    told = f"build-slurm: Slurm 25.11.1 was built without {named}: see config.log for the library that it missed"
    assert built(tmp_path, **{"slurmd": "libhwloc.so.15", "parser": "libllhttp.so.9.4", **lacks}) == told
