import jwt
import pytest

from sunkpy.install.slurm_token import keep_token
from sunkpy.slurm.errors import Unauthorized

KEY = b"the key of the cluster, long enough"


def test_the_file_always_has_a_whole_token_of_that_user(tmp_path):
    (tmp_path / "jwt.key").write_bytes(KEY)
    path, found = tmp_path / "token", []
    keep_token(tmp_path / "jwt.key", "nobody", path, sleep=lambda _: found.append(path.read_text()), times=2)
    assert [jwt.decode(text, KEY, ["HS256"])["sun"] for text in found] == ["nobody"] * 2


def test_the_key_of_the_page_is_the_same_wherever_it_follows_from_the_clusters_and_is_not_that(tmp_path):
    found = set()
    for name, key in (("one", KEY), ("two", KEY), ("other", KEY[::-1])):
        (tmp_path / "jwt.key").write_bytes(key)
        path = tmp_path / name
        keep_token(tmp_path / "jwt.key", "nobody", tmp_path / "token", page_key=path, sleep=lambda _: None, times=1)
        found.add(path.read_text())
    assert len(found) == 2
    assert all(len(text) == 64 and text.encode() != KEY for text in found)


def test_without_the_key_it_ends_with_the_reason(tmp_path):
    with pytest.raises(Unauthorized, match=r"mount the cluster's jwt\.key there"):
        keep_token(tmp_path / "jwt.key", "nobody", tmp_path / "token", times=1)
