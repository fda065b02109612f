"""How long a hook asks: `ask_until_done` of hooks.sh, with a scheduler that gives set answers. A pause is 10 s."""

from __future__ import annotations

import subprocess

import pytest

from tests.unit.charts.rendering import CHARTS

HOOKS = CHARTS / "slurm" / "files" / "hooks.sh"
ANSWERS = """\
say() { echo "$*" >> said; }
sleep() { SECONDS=$((SECONDS + 10)); }
ask() {
  echo asked >> asked
  local number; number=$(wc -l < asked)
  local status=${answers[$((number - 1))]:-${answers[-1]}}
  printf '{"done": %s}\\n%s' "$([ "$status" = 200 ] && echo true || echo false)" "$status"
}
"""
SITUATION = f"""\
{ANSWERS}
SUNKPY_REFUSAL_S=1000 limit=$2 outage=$3
read -ra answers <<< "$4"
source <(sed -n '/^ask_until_done()/,/^}}/p' "$1")
ask_until_done epilog "$limit" "$outage"
code=$?
echo "$code $(wc -l < asked) $SECONDS"
echo "$why"
"""
NEVER = 10_000


@pytest.mark.parametrize(
    ("answers", "limit_s", "outage_s", "code", "asked", "took_s"),
    [
        pytest.param("200", 0, 0, 0, 1, 0, id="done at once"),
        pytest.param("503 000 404 200", 0, 100, 0, 4, 30, id="silence is no part of the limit"),
        pytest.param("503", 0, 40, 2, 5, 40, id="nobody answers for as long as the outage may last"),
        pytest.param("503", NEVER, 40, 2, 5, 40, id="whatever the limit is"),
        pytest.param("202", 0, NEVER, 1, 1, 0, id="not done within the limit"),
        pytest.param("401", 30, 0, 1, 4, 30, id="an answer is no silence, and its time counts"),
        pytest.param("401 503 503 503 401", 30, NEVER, 1, 8, 70, id="after silence the rest of the limit is left"),
        pytest.param("401 503 401 503 401", 30, NEVER, 1, 8, 70, id="each silence is left out"),
        pytest.param("503 503 503 202", 0, 40, 1, 4, 30, id="one answer after silence, and the limit is over"),
        pytest.param("503 503 503 401 503", NEVER, 40, 2, 8, 70, id="an outage begins at the last answer"),
        pytest.param("401 400", NEVER, NEVER, 1, 2, 10, id="what the scheduler does not understand it never will"),
    ],
)
def test_silence_counts_toward_the_outage_and_answers_toward_the_limit(
    tmp_path, answers: str, limit_s: int, outage_s: int, code: int, asked: int, took_s: int
):
    command = ["bash", "-c", SITUATION, "-", HOOKS, str(limit_s), str(outage_s), answers]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=20)
    found = [int(word) for word in done.stdout.splitlines()[0].split()]
    assert found[:2] == [code, asked], done.stderr
    assert took_s <= found[2] < took_s + 10


def test_why_a_hook_gave_up_is_said(tmp_path):
    said = {}
    for answers in ("503", "202", "403 400"):
        folder = tmp_path / answers
        folder.mkdir()
        command = ["bash", "-c", SITUATION, "-", HOOKS, "0" if answers == "202" else "50", "20", answers]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=20)
        said[answers] = done.stdout.splitlines()[1]
    assert said == {
        "503": "no answer from the scheduler for 20 s (HTTP 503)",
        "202": "still waiting after 0 s",
        "403 400": "the scheduler refused with HTTP 400",
    }
