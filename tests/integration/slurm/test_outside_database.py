"""A database that is not the chart's: with TLS, and with no more rights and settings than values.yaml names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from devcluster.shell import run
from devcluster.waiting import wait
from tests.integration.slurm.daemons import PASSWORD, ROOT, RealAccounting, RealSlurm

pytestmark = [pytest.mark.integration, pytest.mark.long]

CA: Final = "/ca/ca.crt"
START: Final = """\
#!/bin/bash
set -e
data=/var/lib/mysql/data
mariadb-install-db --no-defaults --datadir="$data" --skip-test-db --auth-root-socket-user=mariadb > /dev/null
exec /usr/sbin/mariadbd --defaults-file=/etc/site.cnf --datadir="$data" --socket=/run/mysqld/mysqld.sock "$@"
"""


def page() -> tuple[str, str]:
    """The SQL and the settings that values.yaml names."""
    text = (ROOT / "charts/slurm/values.yaml").read_text().split("# Your MariaDB or MySQL.")[1].split("For TLS")[0]
    sql = "\n".join(re.findall(r"`([A-Z].*?;)`", text))
    settings = "\n".join(re.findall(r"`(innodb_.*?)`", text))
    return sql, settings


class OfTheSite(RealAccounting):
    """MariaDB as a site runs it, and the slurmdbd of the chart."""

    def start_mariadb(self) -> subprocess.Popen[bytes]:
        database = self._database
        tls = database / "etc/tls"
        tls.mkdir()
        named = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-nodes")
        run(["openssl", "req", "-x509", "-newkey", "rsa:2048", *named, "-keyout", f"{tls}/key", "-out", f"{tls}/crt"])
        run(["chown", "-R", "404:404", str(tls)])
        run(["install", "-D", "-m", "0644", f"{tls}/crt", f"{self.root}{CA}"])
        sql, settings = page()
        password = PASSWORD.replace("\\", "\\\\").replace("'", "''")
        (database / "etc/site.sql").write_text(sql.replace("the password", password))
        (database / "etc/site.cnf").write_text(
            f"[mariadbd]\n{settings}\nssl_cert = /etc/tls/crt\nssl_key = /etc/tls/key\ninit_file = /etc/site.sql\n"
        )
        start = database / "usr/local/bin/start-mariadb"
        start.write_text(START)
        return super().start_mariadb()


@pytest.fixture(scope="module")
def accounting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfTheSite]:
    """With a slurmctld that reports to it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    folder, suite = tmp_path_factory.mktemp("site"), os.environ.get("SLURM_SUITE", "trixie")
    accounting = OfTheSite(folder, suite, conf=f"StorageParameters=SSL_CA={CA}\n")
    try:
        slurm = RealSlurm(folder, suite, accounting)
        yield accounting
    finally:
        accounting.stop()
    slurm.stop()


def select(accounting: OfTheSite, what: str) -> list[str]:
    return accounting.in_database("mariadb", "-N", "-e", f"SELECT {what}", "slurm_acct_db").split()


def test_slurmdbd_keeps_its_records_there(accounting: OfTheSite) -> None:
    wait(lambda: accounting.sacctmgr("show", "cluster"), timeout_s=60, what="slurmctld to have told its cluster")
    accounting.sacctmgr("add", "account", "team")
    assert "team" in select(accounting, "name FROM acct_table WHERE deleted = 0")


def test_its_user_cannot_but_encrypt(accounting: OfTheSite) -> None:
    assert select(accounting, "ssl_type FROM mysql.user WHERE user = 'slurm'") == ["ANY"]
    assert int(select(accounting, "COUNT(*) FROM information_schema.processlist WHERE user = 'slurm'")[0]) > 0


def test_slurmdbd_recommends_no_other_settings(accounting: OfTheSite) -> None:
    said = (accounting.root / "var/log/start-slurmdbd.log").read_text()
    assert "MySQL server version is" in said
    assert "settings not recommended" not in said
