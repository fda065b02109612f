import io
import json
import tarfile
from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.images import OneFile, one_file_image, read_identity

PAUSE = OneFile(tag="docker.io/x/pause:1", path="/pause")


def archive_of(image: OneFile, program: bytes = b"\x7fELF") -> bytes:
    return one_file_image(image, program, architecture="amd64")


def test_the_pause_image_is_the_same_bytes_every_time_and_names_itself(tmp_path: Path):
    data = archive_of(PAUSE)
    assert data == archive_of(PAUSE)
    (tmp_path / "a.tar").write_bytes(data)
    [(tag, config)] = read_identity(tmp_path / "a.tar").items()
    assert tag == "docker.io/x/pause:1"
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert json.load(tar.extractfile(config))["config"] == {"Entrypoint": ["/pause"]}


def test_other_content_is_another_identity(tmp_path: Path):
    (tmp_path / "a.tar").write_bytes(archive_of(PAUSE))
    (tmp_path / "b.tar").write_bytes(archive_of(PAUSE, b"other"))
    assert read_identity(tmp_path / "a.tar") != read_identity(tmp_path / "b.tar")


def test_a_program_may_have_a_user_and_other_names(tmp_path: Path):
    image = OneFile(tag="docker.io/x/busybox:1", path="/bin/busybox", user="65532", links=("/bin/sh",))
    (tmp_path / "a.tar").write_bytes(archive_of(image))
    [config] = read_identity(tmp_path / "a.tar").values()
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert json.load(tar.extractfile(config))["config"]["User"] == "65532"
        with tarfile.open(fileobj=tar.extractfile("layer.tar")) as layer:
            assert layer.getmember("bin/sh").linkname == "/bin/busybox"


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_an_oci_archive_is_known_by_its_digest(tmp_path: Path):
    named = {"digest": "sha256:1", "annotations": {"org.opencontainers.image.ref.name": "docker.io/x/y:1"}}
    index = json.dumps({"manifests": [named, {"digest": "sha256:2"}]}).encode()
    assert read_identity(write_tar(tmp_path / "oci.tar", {"index.json": index})) == {"docker.io/x/y:1": "sha256:1"}


@pytest.mark.parametrize("content", [b"not a tar", None, {"etc/passwd": b""}])
def test_a_file_that_is_no_image_says_how_to_make_one(tmp_path: Path, content: object):
    path = tmp_path / "x.tar"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        write_tar(path, content)
    with pytest.raises(DevclusterError, match=r"x\.tar is not an image archive .*buildah push"):
        read_identity(path)
