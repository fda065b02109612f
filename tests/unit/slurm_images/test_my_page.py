"""`my-page` in a login pod: a link with the caller's own token, where there is a page."""

from __future__ import annotations

import os
import subprocess

from tests.unit.slurm_images.test_my_login import BIN


def my_page(tmp_path, url, *words):
    (tmp_path / "page").write_text(url)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\n[ \"$*\" = 'token lifespan=300' ] && echo SLURM_JWT=a.b.c\n")
    scontrol.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SUNKPY_PAGE": str(tmp_path / "page")}
    return subprocess.run([BIN / "my-page", *words], env=env, capture_output=True, text=True, check=False, timeout=30)


def test_it_prints_a_link_with_the_token_behind_what_browsers_send(tmp_path):
    assert my_page(tmp_path, "https://page.example.com/").stdout == "https://page.example.com/#slurm=a.b.c\n"


def test_where_there_is_no_page_it_says_so(tmp_path):
    done = my_page(tmp_path, "")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "my-page: there is no page here\n")


def test_who_asks_for_help_gets_an_example_and_no_token(tmp_path):
    done = my_page(tmp_path, "https://page.example.com/", "--help")
    assert (done.returncode, done.stdout, "Example: my-page" in done.stderr) == (2, "", True)
