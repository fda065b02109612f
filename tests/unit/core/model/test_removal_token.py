from datetime import UTC, datetime

import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Meta, Pod
from sunkpy.core.model.removal_token import Token, token_of

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def pod(text):
    return Pod(metadata=Meta(name="gpu-012-001", annotations={names.ANNOTATION_PENDING_DELETION: text}))


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("2026-11-20T12:00:00+00:00/scale-down", Token(NOON, "scale-down")),
        ("2026-11-20T12:00:00Z/a/b", Token(NOON, "a/b")),
        ("2026-11-20T12:00:00Z", Token(NOON, "2026-11-20T12:00:00Z")),
        ("2026-11-20/repair", Token(LONG_AGO, "repair")),
        ("soon/repair", Token(LONG_AGO, "repair")),
        ("yes", Token(LONG_AGO, "yes")),
        ("", Token(LONG_AGO, "")),
    ],
)
def test_whatever_stands_there_asks_for_the_removal(text, token):
    assert token_of(pod(text)) == token


def test_no_annotation_no_removal():
    assert token_of(Pod()) is None


def test_what_is_written_is_read():
    token = Token(NOON, "rollout")
    assert token_of(pod(token.encode())) == token
