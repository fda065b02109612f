"""What people can do: for each cause there are words, and a command to copy where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sunkpy.core.explain.nodeset import _HELD, _NEW, _NO_NODE, _TOO_FEW, _UNKNOWN
from sunkpy.core.explain.nodeset import _WORDS as OF_NODESETS
from sunkpy.core.explain.why import Stage
from sunkpy.core.explain.words import CURES, WORDS
from sunkpy.core.gang.actions import WaitCause
from sunkpy.core.gang.decide.queued import NEVER_STARTS

CORE = Path(__file__).parents[1]
FILES = sorted(file for folder in CORE.glob("*/golden*/") if folder.is_dir() for file in folder.iterdir())
COMMAND = re.compile(r"\b(kubectl|helm upgrade|scontrol|sacctmgr|sacct|squeue|sinfo) \w*|sunkpy\.dev/[a-z-]+")
"""A command, or the annotation that has to change, which only the owner of the template can do."""
STOPPED = re.compile(r"\b(kubectl|scontrol|sacctmgr|sacct|squeue|sinfo) [^:;,()]*\.$")
"""A command at the end of a text that a full stop would spoil for who copies it."""
SAYS_MORE = "says when Slurm expects that."
TEXTS = {
    **{str(cause): words.what_to_do for cause, words in WORDS.items()},
    **CURES,
    **{name: words.what_to_do for name, words in OF_NODESETS.items()},
    **{words.standing: words.what_to_do for words in (_NEW, _UNKNOWN, _NO_NODE, _TOO_FEW, _HELD)},
}


def is_told(text: str) -> bool:
    """Nothing is to be done, or a command is named, whole."""
    is_nothing = re.match("Nothing[.:]", text) and "; if " not in text
    return bool(is_nothing or (COMMAND.search(text) and (text.endswith(SAYS_MORE) or not STOPPED.search(text))))


def test_there_are_words_for_every_cause():
    assert set(WORDS) == {*WaitCause, *Stage}


def test_there_is_a_cure_for_every_reason_with_which_a_job_never_starts():
    assert set(CURES) == set(NEVER_STARTS)


@pytest.mark.parametrize("of", [of for of in TEXTS if of != str(WaitCause.NEVER_STARTS)])
def test_what_to_do_names_the_command(of):
    assert is_told(TEXTS[of]), TEXTS[of]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_each_explanation_names_the_command(file):
    _, text = file.read_text().rsplit("what to do", 1)
    assert is_told(text.strip()), text
