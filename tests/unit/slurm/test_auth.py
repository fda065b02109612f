import re
import subprocess
from pathlib import Path

import jwt
import pytest

from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import errors, token_source
from sunkpy.slurm.auth import LIFETIME_S, RENEW_BEFORE_S, MintedToken, TokenFile

KEY = b"k" * 32
ROOT = Path(__file__).parents[3]


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "jwt.key"
    path.write_bytes(KEY)
    return path


def claims(token: str) -> dict[str, object]:
    return jwt.decode(token, KEY, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False})


def test_a_minted_token_is_for_the_user_and_lives_five_minutes(key_file: Path) -> None:
    token = MintedToken(key_file, user="k8s", wall_clock=lambda: 1000.0).token()
    assert claims(token) == {"iat": 1000, "exp": 1000 + LIFETIME_S, "sun": "k8s"}


def test_a_minted_token_is_kept_until_a_minute_before_it_ends(key_file: Path) -> None:
    now_s = 1000.0
    tokens = MintedToken(key_file, user="k8s", wall_clock=lambda: now_s)
    first = tokens.token()
    now_s += LIFETIME_S - RENEW_BEFORE_S - 1
    assert tokens.token() == first
    now_s += 1
    assert tokens.token() != first


def test_tokens_of_users_who_ask_for_nothing_any_more_are_forgotten(key_file: Path) -> None:
    now_s = 1000.0
    tokens = MintedToken(key_file, user="k8s", wall_clock=lambda: now_s)
    for number in range(1000):
        tokens.token(f"user{number}")
        now_s += 1.0
    tokens.token("user0")
    assert len(tokens._minted) <= LIFETIME_S
    assert {"user0", "user999"} <= tokens._minted.keys()


def test_a_refused_minted_token_is_signed_with_the_key_of_now(key_file: Path) -> None:
    tokens = MintedToken(key_file, user="k8s", wall_clock=lambda: 1000.0)
    tokens.token()
    key_file.write_bytes(b"n" * 32)
    tokens.renew()
    assert jwt.decode(
        tokens.token(), b"n" * 32, algorithms=["HS256"], options={"verify_exp": False, "verify_iat": False}
    )


def test_a_missing_key_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(errors.Unauthorized, match="nowhere"):
        MintedToken(tmp_path / "nowhere", user="k8s").token()


def test_a_token_file_is_read_for_each_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    tokens = TokenFile(path)
    path.write_text("one\n")
    assert tokens.token() == "one"
    path.write_text("two")
    assert tokens.token() == "two"
    path.write_text("SLURM_JWT=three\n")  # as scontrol prints it
    assert tokens.token() == "three"


@pytest.mark.parametrize("content", [None, "", "  \n"])
def test_a_missing_or_empty_token_names_its_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.Unauthorized, match=str(path)):
        TokenFile(path).token()


def test_an_expired_token_is_told_with_its_file_and_expiry(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(jwt.encode({"exp": 1_700_000_000, "sun": "slurm"}, KEY, "HS256"))
    text = TokenFile(path).explain_refusal()
    assert str(path) in text
    assert "expired at 2023-11-14T22:13:20Z" in text


def test_a_token_of_another_cluster_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("not a token")
    assert "not one of this cluster" in TokenFile(path).explain_refusal()


def test_settings_choose_where_tokens_come_from(key_file: Path) -> None:
    assert isinstance(token_source(SlurmSettings(url="x", jwt_key_file=str(key_file))), MintedToken)
    assert isinstance(token_source(SlurmSettings(url="x", token_file="t")), TokenFile)


def test_who_has_the_key_may_ask_as_anybody_and_each_token_is_kept(key_file: Path) -> None:
    tokens = MintedToken(key_file, user="k8s", wall_clock=lambda: 1000.0)
    assert claims(tokens.token("ann"))["sun"] == "ann"
    assert (tokens.token("ann"), tokens.token()) == (tokens.token("ann"), tokens.token())
    assert claims(tokens.token())["sun"] == "k8s"


@pytest.mark.parametrize("name", ["0", "1001", "٣"])
def test_nobody_is_asked_for_by_a_number_for_slurmctld_takes_it_for_a_uid(key_file: Path, name: str) -> None:
    with pytest.raises(errors.Unauthorized, match="a number, not a name"):
        MintedToken(key_file, user="k8s").token(name)


def test_the_seal_is_what_slurmctlds_script_makes_of_the_same_key(key_file: Path) -> None:
    script = (ROOT / "charts/slurm/files/job_submit.lua").read_text()
    (command,) = re.findall(r'KEYED = "(.*)"', script)
    command = command.replace("/etc/slurm/jwt.key", str(key_file))
    made = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.split()[0]
    assert MintedToken(key_file, user="k8s").seal() == made


def test_a_token_file_is_for_one_user_and_has_no_seal(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("t")
    for ask in (lambda: TokenFile(path).token("ann"), TokenFile(path).seal):
        with pytest.raises(errors.Unauthorized, match="jwtKeyFile"):
            ask()
