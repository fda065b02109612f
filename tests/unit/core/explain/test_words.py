from sunkpy.core.explain.why import Stage
from sunkpy.core.explain.words import CURES, WORDS
from sunkpy.core.gang.actions import WaitCause
from sunkpy.core.gang.decide.queued import NEVER_STARTS


def test_there_are_words_for_every_cause_and_a_whole_sentence_says_what_to_do():
    assert set(WORDS) == {*WaitCause, *Stage}
    assert [words for words in (*WORDS.values(),) if not words.what_to_do.endswith(".")] == []


def test_there_is_a_cure_for_every_reason_with_which_a_job_never_starts():
    assert set(CURES) == set(NEVER_STARTS)
