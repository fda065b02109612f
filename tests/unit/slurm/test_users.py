import jwt
import pytest

from sunkpy.slurm.errors import Unauthorized
from sunkpy.slurm.users import proved_user, user_of
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd

KEY = b"the key of the cluster, long enough"


def token(user="ann", key=KEY):
    return jwt.encode({"sun": user, "exp": 4_000_000_000}, key, "HS256")


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (token(), "ann"),
        (jwt.encode({"sub": "a"}, KEY, "HS256"), ""),
        (token(user=["ann"]), ""),
        ("opaque", ""),
        ("", ""),
    ],
)
def test_a_token_of_slurm_names_its_user(text, user):
    assert user_of(text) == user


async def test_slurm_says_whether_a_token_is_one_of_its_own():
    slurm = Slurmrestd()
    slurm.jwt_key = KEY
    async with serving(slurm.app()) as port:
        assert await proved_user(f"http://127.0.0.1:{port}", token()) == "ann"
        with pytest.raises(Unauthorized, match="expired"):
            await proved_user(f"http://127.0.0.1:{port}", token(key=b"another key, which is as long as it"))
