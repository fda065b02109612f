"""A database that is not the chart's: with TLS, no more rights and settings than values.yaml names, and a replica."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest

from devcluster.shell import run
from devcluster.waiting import wait
from tests.integration.slurm.daemons import PASSWORD, ROOT, RealAccounting, RealSlurm, start_in
from tests.ports import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.long]

CA: Final = "/ca/ca.crt"
START: Final = """\
#!/bin/bash
set -e
name=$1 data=/var/lib/mysql/$1
install=(mariadb-install-db --no-defaults --datadir="$data" --skip-test-db --auth-root-socket-user=mariadb)
[ -d "$data" ] || "${install[@]}" > /dev/null
exec /usr/sbin/mariadbd --defaults-file="/etc/$name.cnf" --datadir="$data" --socket="/run/mysqld/$name.sock" --log-bin \
  --bind-address=127.0.0.1 "${@:2}"
"""
REPLICATE: Final = """\
CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'copy', MASTER_PASSWORD = 'copy',
  MASTER_USE_GTID = slave_pos, MASTER_SSL_CA = '/etc/tls/crt';
START REPLICA
"""


def page() -> tuple[str, str]:
    """The SQL and the settings that values.yaml names."""
    text = (ROOT / "charts/slurm/values.yaml").read_text().split("# Your MariaDB or MySQL.")[1].split("For TLS")[0]
    sql = "\n".join(re.findall(r"`([A-Z].*?;)`", text))
    settings = "\n".join(re.findall(r"`(innodb_.*?)`", text))
    return sql, settings


class OfTheSite(RealAccounting):
    """MariaDB as a site runs it, and the slurmdbd of the chart."""

    replica: subprocess.Popen[bytes]

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
        conf = f"[mariadbd]\n{settings}\nssl_cert = /etc/tls/crt\nssl_key = /etc/tls/key\n"
        (database / "etc/primary.cnf").write_text(f"{conf}server_id = 1\ninit_file = /etc/site.sql\n")
        (database / "etc/replica.cnf").write_text(f"{conf}server_id = 2\n")
        start = database / "usr/local/bin/start-mariadb"
        start.write_text(START)
        self.mariadb = self.start("primary", self._database_port)
        return self.mariadb

    def start(self, name: str, port: int) -> subprocess.Popen[bytes]:
        """The primary or its replica."""
        return start_in(self._database, "start-mariadb", 404, name, f"--port={port}")

    def ask(self, name: str, sql: str, *flags: str) -> str:
        """What the primary or its replica answers to its administrator."""
        return self.in_database("mariadb", f"--socket=/run/mysqld/{name}.sock", "-N", *flags, "-e", sql)

    def start_replica(self) -> None:
        """A second database, which copies all that the first has and does."""
        wait(lambda: answers(self, "primary"), timeout_s=60, what="the primary")
        self.ask("primary", "CREATE USER copy IDENTIFIED BY 'copy'; GRANT REPLICATION SLAVE ON *.* TO copy")
        self.replica = self.start("replica", free_ports(1)[0])
        wait(lambda: answers(self, "replica"), timeout_s=120, what="the replica")
        self.ask("replica", REPLICATE.format(port=self._database_port))

    def fail_over(self) -> None:
        """The primary is killed; from now on its replica answers at its address."""
        self.mariadb.kill()
        self.mariadb.wait()
        self.ask("replica", "STOP REPLICA; RESET REPLICA ALL")
        self.replica.terminate()
        self.replica.wait()
        self.mariadb = self.start("replica", self._database_port)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OfTheSite, RealSlurm]]:
    """The site's database, and a Slurm whose slurmctld uses it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    folder, suite = tmp_path_factory.mktemp("site"), os.environ.get("SLURM_SUITE", "trixie")
    accounting = OfTheSite(folder, suite, conf=f"StorageParameters=SSL_CA={CA}\n")
    try:
        slurm = RealSlurm(folder, suite, accounting)
        yield accounting, slurm
    finally:
        accounting.stop()
    slurm.stop()


@pytest.fixture(scope="module")
def accounting(site: tuple[OfTheSite, RealSlurm]) -> OfTheSite:
    return site[0]


def answers(accounting: OfTheSite, name: str) -> bool:
    try:
        return accounting.ask(name, "SELECT 1").strip() == "1"
    except AssertionError:
        return False


def select(accounting: OfTheSite, what: str) -> list[str]:
    return accounting.ask("primary", f"SELECT {what}", "slurm_acct_db").split()


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


def test_slurmdbd_goes_on_with_the_replica_of_a_database_that_was_killed(site: tuple[OfTheSite, RealSlurm]) -> None:
    """Nothing is restarted, and each job is on record once: before, meanwhile and after."""
    accounting, slurm = site
    accounting.start_replica()
    accounting.sacctmgr("add", "user", "slurm", "account=team")
    before = submit(slurm)
    wait(lambda: recorded(accounting) == {before: "COMPLETED"}, timeout_s=60, what="the record of a job")
    (written,) = select(accounting, "@@gtid_binlog_pos")
    copied = "SELECT @@gtid_slave_pos"
    wait(lambda: accounting.ask("replica", copied).strip() == written, timeout_s=30, what="the replica")
    accounting.mariadb.send_signal(signal.SIGSTOP)  # as when a machine dies: nobody closes its connections
    meanwhile = submit(slurm)
    wait(lambda: state_of(slurm, meanwhile) == "COMPLETED", timeout_s=60, what="a job without a database")
    accounting.fail_over()
    wait(lambda: answers(accounting, "replica"), timeout_s=60, what="the replica at the address of the first")
    after = submit(slurm)
    ended = dict.fromkeys((before, meanwhile, after), "COMPLETED")
    wait(lambda: recorded(accounting) == ended, timeout_s=120, what="all jobs to be on record")
    assert accounting.slurmdbd.poll() is None


def submit(slurm: RealSlurm) -> str:
    args = ("--parsable", "--output=/dev/null", "--chdir=/tmp", "--account=team", "--mem=10", "--wrap=true")
    return slurm.as_user(401, "sbatch", *args)


def state_of(slurm: RealSlurm, job: str) -> str:
    return slurm.as_user(401, "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")


def recorded(accounting: OfTheSite) -> dict[str, str]:
    """The state of each job; one that is there twice has both."""
    told: dict[str, str] = {}
    for job, state in accounting.records():
        told[job] = told.get(job, "") + state
    return told
