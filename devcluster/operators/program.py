"""A program of an operator, and the image that is made of it."""

import msgspec

from devcluster.binaries import program_of
from devcluster.images import OneFile

TOOLS_IMAGE = "docker.io/sunkpy/busybox:1"
"""Stands in for the small images that operators put into pods themselves: a shell, nslookup, wget."""
USER = "65532"
"""Operators insist on not being root; this is nobody's number in most of their images."""


class Program(msgspec.Struct, frozen=True):
    """``package`` is relative to the module; the manifests run it as ``path`` of ``image`` (its name without tag)."""

    package: str
    image: str
    path: str

    @property
    def name(self) -> str:
        """The last part of its path, as in its makers' image."""
        return self.path.rsplit("/", 1)[-1]

    def full_package(self, module: str) -> str:
        """The Go package."""
        return f"{module}/{self.package}".rstrip("/")

    def built_as(self, module: str) -> str:
        """Name of the program that Go builds."""
        return program_of(self.full_package(module))


def image_ref(operator: str, program: Program, version: str) -> str:
    """Under which name the image of a program is on the nodes."""
    return f"docker.io/sunkpy/{operator}-{program.name}:{version}"


def image_of(operator: str, program: Program, version: str) -> OneFile:
    """The image of a program."""
    return OneFile(tag=image_ref(operator, program, version), path=program.path, user=USER)
