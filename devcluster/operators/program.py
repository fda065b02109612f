"""The programs of operators, and their images."""

import msgspec

from devcluster.binaries import program_of
from devcluster.images import OneFile

TOOLS_IMAGE = "docker.io/sunkpy/busybox:1"
"""The image in place of small images that operators put into pods: it has a shell, nslookup and wget."""
USER = "65532"
"""The uid of operators, which refuse to run as root: the unprivileged user of most of their images."""


class Program(msgspec.Struct, frozen=True):
    """A program of an operator. ``package``: its Go package, relative to the module; ``image`` (without tag) and
    ``path``: where the manifests expect it.
    """

    package: str
    image: str
    path: str

    @property
    def name(self) -> str:
        """The name of the program in the image: the last part of ``path``."""
        return self.path.rsplit("/", 1)[-1]

    def full_package(self, module: str) -> str:
        """Return the program's full Go package."""
        return f"{module}/{self.package}".rstrip("/")

    def built_as(self, module: str) -> str:
        """Return the name under which Go builds the program."""
        return program_of(self.full_package(module))


def image_ref(operator: str, program: Program, version: str) -> str:
    """Return the name of a program's image on the nodes."""
    return f"docker.io/sunkpy/{operator}-{program.name}:{version}"


def image_of(operator: str, program: Program, version: str) -> OneFile:
    """Return the description of a program's image."""
    return OneFile(tag=image_ref(operator, program, version), path=program.path, user=USER)
