"""The page on directories has the configurations that ran with Samba's Active Directory."""

from __future__ import annotations

import pytest

from tests.integration.login.active_directory import CONF, DOMAIN, KERBEROS, PASSWORD
from tests.unit.docs.source import ROOT

PAGE = {line.strip() for line in (ROOT / "docs/tasks/directory.md").read_text().splitlines()}
OF_THE_TEST = {"offline_timeout = 1", "ldap_search_timeout = 60", "[sssd]", "domains = ad.example.com"}


@pytest.mark.parametrize("provider", CONF)
def test_the_page_says_what_ran(provider: str):
    """But for how long the test waits, and what a site says of all its domains."""
    ran = DOMAIN + CONF[provider] + (KERBEROS if provider == "ad" else "")
    lines = {line.strip().replace(PASSWORD, "…") for line in ran.splitlines()}
    assert lines - OF_THE_TEST <= PAGE
