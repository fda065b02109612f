"""A Slurm of one's own source in images: from the tarball to what apt of a real Debian installs of it.

Of Slurm itself there is only what the packaging looks at: programs that say who they are, and plugins by name.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.binaries import REGISTRY, Binaries
from devcluster.state import default_cache
from tests.integration.registry import registry_in
from tests.unit.slurm_images.test_build import PROGRAM, build, tarball_of_slurm

pytestmark = [pytest.mark.integration, pytest.mark.long]

ASKED = ("sackd", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld")
CONFIGURE = r"""#!/bin/bash
for option in "$@"; do
  case $option in --libdir=*) libraries=${option#*=} ;; --with-pmix=*) pmix=${option#*=} ;; esac
done
[ -e "$pmix/include/pmix.h" ] || { echo "no PMIx in $pmix" >&2; exit 1; }
cat > main.c << END
#include <json-c/json.h>
#include <stdio.h>
int main(void) { printf("ours, with json-c %s\\n", json_c_version()); return 0; }
END
cat > Makefile << END
all:
	gcc -o program main.c -ljson-c
	gcc -Wl,--no-as-needed -o slurmd main.c -ljson-c -lhwloc
	gcc -shared -fPIC -o plugin.so main.c -ljson-c
install:
	install -D program \$(DESTDIR)/usr/sbin/slurmctld
	install -D slurmd \$(DESTDIR)/usr/sbin/slurmd
	echo libllhttp.so > \$(DESTDIR)/usr/sbin/slurmrestd
	install -D main.c \$(DESTDIR)/usr/share/man/man1/sbatch.1
	for name in PLUGINS; do install -D plugin.so \$(DESTDIR)$libraries/slurm/\$\$name.so; done
END
mkdir -p contribs/pam_slurm_adopt
printf 'install:\n\techo > $(DESTDIR)/usr/adopt\n' > contribs/pam_slurm_adopt/Makefile
"""
PLUGINS = "accounting_storage_mysql auth_jwt auth_slurm cgroup_v2 job_submit_lua mpi_pmix"


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=build._environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _base(folder: Path, plugins: str) -> Any:
    configure = CONFIGURE.replace("PLUGINS", plugins)
    source = build.read_source(tarball_of_slurm(folder / "slurm.tar.bz2", configure=configure))
    return build.Base("trixie", source=source)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """In buildah until the end of the test; so is the package."""
    found = _base(tmp_path, PLUGINS)
    monkeypatch.setattr(build.Base, "package", tmp_path / "package")
    build._ensure_base(found)
    yield found
    _output("buildah", "rmi", found.ref)


def test_apt_takes_the_slurm_of_the_source_for_each_name_of_debians(base: Any):
    container = _output("buildah", "from", base.ref).strip()
    run = ("buildah", "run", "--network", "host", container, "--")
    try:
        _output(*run, "apt-get", "update", "-qq")
        _output(*run, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *ASKED)
        assert _output(*run, "slurmctld").startswith("ours, with json-c ")
        assert _output(*run, "cat", "/usr/share/bash-completion/completions/sbatch").startswith("complete ")
        assert _output(*run, "cat", "/usr/share/doc/slurm-from-source/copyright") == "GPL"
        installed = _output(*run, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}${Package} ${Version}\n").splitlines()
        assert [line for line in installed if "slurm" in line and line.startswith("ii")] == [
            "ii slurm-from-source 25.11.1"
        ]
        needed = {line.split()[1] for line in installed if line.startswith("ii")}
        opened = {"libhwloc15", "libjson-c5", "liblua5.1-0", "libpmix2t64"}
        assert opened <= needed, "what programs and plugins open is Debian's"
    finally:
        _output("buildah", "rm", container)


def test_a_slurm_that_lacks_a_plugin_becomes_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(build.Base, "package", tmp_path / "package")
    lacks = _base(tmp_path, PLUGINS.replace("mpi_pmix", ""))
    with pytest.raises(build.CannotBuild, match=r"Slurm 25\.11\.1 was built without mpi_pmix: see config\.log"):
        build._ensure_base(lacks)


def test_an_image_of_the_site_is_what_images_are_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    binaries = Binaries(default_cache())
    binaries.ensure([REGISTRY], progress=print)
    plain = build.Base("trixie")
    build._ensure_base(plain)
    with registry_in(tmp_path, binaries) as address:
        conf = tmp_path / "registries.conf"
        conf.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(conf))
        name, digest = f"{address}/site/debian:mofed", tmp_path / "digest"
        _output("buildah", "push", f"--digestfile={digest}", plain.ref, f"docker://{name}")
        choice = build.Choice("trixie", image=build.check_image(f"{name}@{digest.read_text()}"))
        base = build.slurm_group(choice).base
        build._ensure_base(base)
    assert base.ref.startswith("localhost/sunkpy-base:on-debian-mofed-")
    container = _output("buildah", "from", "--pull-never", base.ref).strip()
    said = _output("buildah", "run", container, "--", "cat", "/etc/os-release")
    _output("buildah", "rm", container)
    assert "VERSION_CODENAME=trixie" in said
    _output("buildah", "rmi", base.ref)


def test_buildah_knows_each_command_that_it_is_given():
    given = set(re.findall(r'(?<!: )"buildah",\s*"([a-z]+)"', PROGRAM.read_text()))
    known = set(re.findall(r"^  ([a-z]+) ", _output("buildah", "--help"), re.MULTILINE)) | {"build"}
    assert {"from", "commit", "rmi"} <= given <= known
