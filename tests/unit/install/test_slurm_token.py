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


def test_without_the_key_it_ends_with_the_reason(tmp_path):
    with pytest.raises(Unauthorized, match=r"mount the cluster's jwt\.key there"):
        keep_token(tmp_path / "jwt.key", "nobody", tmp_path / "token", times=1)
