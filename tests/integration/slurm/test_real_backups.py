"""Backups of a real MariaDB and a real slurmctld, copied to a real S3 server, and brought back from it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sunkpy.slurm import Slurm, errors
from sunkpy.volumes.metrics import VolumesCollector
from sunkpy.volumes.settings import BackupSettings, VolumesSettings
from tests.bucket import KEY, SECRET, Bucket
from tests.integration.slurm.asking import connect, happens, is_usable
from tests.integration.slurm.daemons import ONE_SLURMD, Machines, RealAccounting, RealSlurm, is_saved

pytestmark = [pytest.mark.integration, pytest.mark.long]

NAME = "slurm_acct_db"
OLD, NEW, NEWEST = (f"{NAME}-{day}T031700Z.sql.gz" for day in ("20260101", "29990101", "29990102"))
YESTERDAY = f"{NAME}-{datetime.now(UTC) - timedelta(days=1):%Y%m%dT%H%M%SZ}.sql.gz"
REPORT = "/tmp/report"
STATE = "/var/lib/slurm/state"
KEEP_SLURMCTLD = """\
keep as slurm bash -c 'while [ -e /var/lib/slurm/hold ]; do sleep 0.1; done; exec /usr/sbin/slurmctld -i -D' \
  >> /var/log/slurmctld.log 2>&1 &
"""
MACHINES = Machines(
    conf=f"{ONE_SLURMD.conf}StateSaveLocation={STATE}\n", start=ONE_SLURMD.start, slurmctld=KEEP_SLURMCTLD
)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    bucket = Bucket(tmp_path_factory.mktemp("objects"))
    yield bucket
    bucket.stop()


class Database:
    """MariaDB with slurmdbd, and the folders of its backups and of the key."""

    def __init__(self, folder: Path) -> None:
        self.accounting = RealAccounting(folder, os.environ.get("SLURM_SUITE", "trixie"))
        self.root = folder / "database"
        self.backups = self.root / "backup"
        give_key(self.root, 404)

    def run(self, *command: str) -> str:
        return self.accounting.in_database(*command)

    def add(self, name: str, size: int = 1000) -> None:
        """A backup of this many random bytes is there."""
        (self.backups / name).write_bytes(gzip.compress(os.urandom(size) + b"\n-- Dump completed\n", 1))
        os.chown(self.backups / name, 404, 404)

    def report(self) -> dict[str, Any]:
        """What the last run said that there is."""
        report: dict[str, Any] = json.loads((self.root / REPORT[1:]).read_text())
        return report


def give_key(root: Path, owner: int, secret: str = SECRET) -> None:
    (root / "s3").mkdir(exist_ok=True)
    for name, text in (("access-key-id", KEY), ("secret-access-key", secret)):
        (root / "s3" / name).write_text(text)
        os.chown(root / "s3" / name, owner, owner)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    database = Database(tmp_path_factory.mktemp("accounting"))
    yield database
    database.accounting.stop()


@pytest.fixture
def database(whole: Database, bucket: Bucket) -> Database:
    """The database, without backups here and in the bucket."""
    objects = [path for path in bucket.folder.rglob("*") if path.is_file()]
    for file in (*whole.backups.iterdir(), *objects, *(whole.root / "tmp").glob("report")):
        file.unlink()
    give_key(whole.root, 404)
    return whole


def keep(bucket: Bucket, **changes: str) -> list[str]:
    return [*bucket.env(**changes), "copy-backup", "keep", NAME, "sql.gz"]


def get(bucket: Bucket, *named: str) -> list[str]:
    return [*bucket.env(), *named, "copy-backup", "get", NAME, "sql.gz", "/backup/got"]


@contextlib.contextmanager
def small(folder: Path, *, owner: int, free: int) -> Iterator[Path]:
    """A volume at this folder, with a file of somebody else that leaves `free` bytes."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "backup", folder], check=True)
    os.chown(folder, owner, owner)
    try:
        (folder / "not-ours").write_bytes(bytes(4 * 1024 * 1024 - free))
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def cut_after(port: int, count: int) -> Iterator[int]:
    """A port that leads to `port`. Each connection breaks after `count` bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def lead(near: socket.socket) -> None:
            with near, socket.create_connection(("127.0.0.1", port)) as far:
                back = threading.Thread(target=copy, args=(far, near, 1 << 40))
                back.start()
                copy(near, far, count)
                for each in (near, far):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                back.join()

        def copy(source: socket.socket, sink: socket.socket, left: int) -> None:
            with contextlib.suppress(OSError):
                while left > 0 and (data := source.recv(min(left, 65536))):
                    sink.sendall(data)
                    left -= len(data)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=lead, args=(listening.accept()[0],)).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_what_the_bucket_lacks_is_copied_once_and_then_old_ones_go(database: Database, bucket: Bucket):
    others = bucket.folder / "old/slurm"
    others.mkdir(parents=True, exist_ok=True)
    foreign = {f"{NAME}-monthly.sql.gz", "slurm_acct_db2-20260101T031700Z.sql.gz", "state-20260101T031700Z.tar.gz"}
    for name in (*foreign, OLD):
        (others / name).write_bytes(b"x")
    for name in (NEW, NEWEST):
        database.add(name)
    said = database.run(*keep(bucket))
    assert f"old/slurm/{NEWEST}, " in said
    assert bucket.names() == {NEW, NEWEST, *foreign}
    assert database.run(*keep(bucket)) == ""


def test_another_backup_of_the_same_name_in_the_bucket_is_no_copy(database: Database, bucket: Bucket):
    """Two clusters with one prefix that make their backups in the same second."""
    database.add(NEW)
    database.run(*keep(bucket))
    database.add(NEW)
    stored = (bucket.folder / "old/slurm" / NEW).read_bytes()
    says = f"http://.*/bucket/old/slurm/{NEW} is not the same as /backup/{NEW}: .* set another s3.prefix"
    with pytest.raises(AssertionError, match=says):
        database.run(*keep(bucket))
    assert (bucket.folder / "old/slurm" / NEW).read_bytes() == stored
    with pytest.raises(AssertionError, match=f"{NEW}: the copy in the bucket has another checksum"):
        database.run(*bucket.env(), "backup-mariadb", "verify")


def test_a_prefix_with_the_backups_of_another_volume_is_not_touched(database: Database, bucket: Bucket):
    """Two clusters with one prefix; or a volume that was lost, whose prefix a new one takes over."""
    objects = bucket.folder / "old/slurm"
    database.add(NEW)
    database.run(*keep(bucket))
    for file in database.backups.iterdir():
        file.unlink()
    database.add(NEWEST)
    (objects / OLD).write_bytes(b"x")
    owner = f"{NAME}-owner"
    says = rf"of another volume\. If another cluster .* set another s3.prefix.* delete http://.*/old/slurm/{owner}: "
    for _ in range(2):
        with pytest.raises(AssertionError, match=says):
            database.run(*keep(bucket))
        assert bucket.names() == {OLD, NEW}
    database.run(*keep(bucket, PREFIX="other/"))
    assert bucket.names() == {OLD, NEW, NEWEST}
    (objects / owner).unlink()
    database.run(*keep(bucket))
    assert {path.name for path in objects.iterdir()} == {NEW, NEWEST, owner}


def test_a_prefix_without_an_owner_is_not_taken_over_if_it_has_other_backups(database: Database, bucket: Bucket):
    """Two clusters of a release that did not write owners yet."""
    for name in (NEW, NEWEST):
        database.add(name)
    database.run(*keep(bucket))
    (bucket.folder / "old/slurm" / f"{NAME}-owner").unlink()
    for name in (NEWEST, f".{NAME}.id"):
        (database.backups / name).unlink()
    database.add(NEW)
    database.add(NEWEST.replace("29990102", "29990103"))
    with pytest.raises(AssertionError, match=f"/old/slurm/{NEW} is not the same as /backup/{NEW}: "):
        database.run(*keep(bucket))
    assert {path.name for path in (bucket.folder / "old/slurm").iterdir()} == {NEW, NEWEST}


@pytest.mark.parametrize(
    ("changes", "secret", "says"),
    [
        ({}, "wrong", r"cannot list backups at http://127.*/bucket/.*403 \(SignatureDoesNotMatch: "),
        ({"BUCKET": "nowhere"}, SECRET, r"cannot list backups at .*404 \(NoSuchBucket: "),
        ({"ENDPOINT": "http://127.0.0.1:1"}, SECRET, r"cannot list backups at http://127.0.0.1:1/.*Failed to connect"),
    ],
)
def test_a_copy_that_fails_says_what_was_tried(database: Database, bucket: Bucket, changes, secret: str, says: str):
    give_key(database.root, 404, secret)
    database.add(NEW)
    with pytest.raises(AssertionError, match=says):
        database.run(*keep(bucket, **changes))
    assert bucket.names() == set()


def test_an_upload_that_breaks_is_no_backup_and_takes_no_old_one_away(database: Database, bucket: Bucket):
    database.add(OLD)
    (bucket.folder / "old/slurm").mkdir(parents=True, exist_ok=True)
    (bucket.folder / "old/slurm" / OLD).write_bytes(b"x")
    database.add(NEW, size=8_000_000)
    with (
        cut_after(bucket.port, 2_000_000) as port,
        pytest.raises(AssertionError, match=f"cannot copy /backup/{NEW}, 8"),
    ):
        database.run(*keep(bucket, ENDPOINT=f"http://127.0.0.1:{port}"))
    assert bucket.names() == {OLD}
    database.run(*keep(bucket))
    assert bucket.names() == {NEW}


def test_a_server_refuses_what_is_not_what_was_signed(database: Database, bucket: Bucket):
    database.add(NEW)
    lie = 's|sha256sum < "$path"|printf %064d|'
    script = f"sed '{lie}' /usr/local/bin/copy-backup > /tmp/lying && bash /tmp/lying keep {NAME} sql.gz"
    with pytest.raises(AssertionError, match=r"cannot copy .*XAmzContentSHA256Mismatch"):
        database.run(*bucket.env(), "bash", "-c", script)
    assert bucket.names() == set()


def test_the_newest_backup_or_the_named_one_comes_back_and_none_that_has_changed(database: Database, bucket: Bucket):
    with pytest.raises(AssertionError, match=rf"there is no backup {NAME}-\*.sql.gz in http://.*/bucket/old/slurm/"):
        database.run(*get(bucket))
    for name in (NEW, NEWEST):
        database.add(name)
    database.run(*keep(bucket))
    database.run(*get(bucket))
    assert (database.backups / "got").read_bytes() == (database.backups / NEWEST).read_bytes()
    database.run(*get(bucket, f"SUNKPY_RESTORE={NEW}"))
    assert (database.backups / "got").read_bytes() == (database.backups / NEW).read_bytes()
    stored = bucket.folder / "old/slurm" / NEWEST
    with stored.open("r+b") as file:
        file.seek(50)
        file.write(b"changed")
    with pytest.raises(AssertionError, match=f"{NEWEST} does not have the checksum with which it was written"):
        database.run(*get(bucket))
    os.truncate(database.backups / NEWEST, 100)
    with pytest.raises(AssertionError, match=f"{NEWEST} of /backup is not whole"):
        database.run("copy-backup", "get", NAME, "sql.gz", "/backup/got")
    assert (database.backups / "got").read_bytes() == (database.backups / NEW).read_bytes()


def test_what_does_not_fit_onto_the_volume_is_in_the_bucket_and_somebody_is_told(database: Database, bucket: Bucket):
    with small(database.backups, owner=404, free=4096):
        database.add(YESTERDAY, size=100)
        with pytest.raises(
            AssertionError, match=r"No space left(?s:.*) is in the bucket alone: 0 of 4194304 bytes of the"
        ):
            database.run(*bucket.env(), f"SUNKPY_REPORT={REPORT}", "backup-mariadb")
        (new,) = bucket.names() - {YESTERDAY}
        report = database.report()
        assert {path.name for path in database.backups.iterdir()} == {
            YESTERDAY,
            "not-ours",
            f".{NAME}.copied",
            f".{NAME}.failed",
        }
    assert [entry[2] for entry in report["files"]] == ["bucket", "both"]
    assert report["error"].startswith(f"{new} is in the bucket alone")
    database.run(*bucket.env(), "copy-backup", "get", NAME, "sql.gz", "/backup/got")
    assert gzip.decompress((database.backups / "got").read_bytes()).splitlines()[-1].startswith(b"-- Dump completed")


def test_a_volume_that_is_full_without_a_bucket_is_told_and_its_last_backup_stays(database: Database):
    with small(database.backups, owner=404, free=4096):
        database.add(OLD, size=100)
        with pytest.raises(AssertionError, match="no new backup in /backup, where 0 of 4194304 bytes are free"):
            database.run("backup-mariadb")
        assert {path.name for path in database.backups.iterdir()} == {OLD, "not-ours", f".{NAME}.failed"}


def test_the_newest_in_the_bucket_stays_however_old_it_is(database: Database, bucket: Bucket):
    database.add(OLD)
    database.run(*keep(bucket))
    (database.backups / OLD).unlink()
    database.run(*keep(bucket))
    assert bucket.names() == {OLD}


def test_an_old_backup_leaves_a_bucket_that_has_more_than_one_answer_lists(database: Database, bucket: Bucket):
    """An answer lists 1,000."""
    now = datetime.now(UTC)
    young = {f"{NAME}-{now - timedelta(minutes=minutes):%Y%m%dT%H%M%SZ}.sql.gz" for minutes in range(1001)}
    (bucket.folder / "old/slurm").mkdir(parents=True, exist_ok=True)
    for name in (OLD, *young):
        (bucket.folder / "old/slurm" / name).touch()
    database.run(*keep(bucket))
    assert bucket.names() == young


def test_the_time_at_which_the_bucket_had_all_is_kept(database: Database, bucket: Bucket):
    """It is what an alert looks at: not that of a copy that failed."""
    stamp = database.backups / f".{NAME}.copied"
    database.add(NEW)
    with pytest.raises(AssertionError, match="cannot list backups"):
        database.run(*keep(bucket, BUCKET="nowhere"))
    assert stamp.stat().st_mtime == 0
    database.run(*keep(bucket))
    assert time.time() - stamp.stat().st_mtime < 60
    database.run("copy-backup", "keep", NAME, "sql.gz")
    assert not stamp.exists()


def test_a_backup_and_its_copy_are_seen_from_beside_the_database(database: Database, bucket: Bucket):
    """The container beside the database sees them by the names, places and times that copy-backup and MariaDB leave."""
    wanted = BackupSettings(of="database", folder=str(database.backups), name=NAME, late_after_seconds=3600)
    tables = database.root / "var/lib/mysql/data" / NAME
    settings = VolumesSettings(volumes={}, database=str(tables), backups=wanted)

    def seen() -> dict[str, float]:
        families = VolumesCollector(settings, began=0).collect()
        return {"/".join((s.name, *s.labels.values())): s.value for family in families for s in family.samples}

    assert seen()["sunkpy_backup_late_timestamp_seconds/database/volume"] == 3600, "there is none"
    database.run(*bucket.env(), "backup-mariadb")
    (file,) = database.backups.glob("*.gz")
    found, now = seen(), time.time()
    assert found["sunkpy_backup_size_bytes/database"] == file.stat().st_size
    assert found["sunkpy_database_size_bytes"] > 1 << 19
    for where in ("made", "copied"):
        assert now - 60 < found[f"sunkpy_backup_{where}_timestamp_seconds/database"] <= now
    for where in ("volume", "bucket"):
        assert now + 3540 < found[f"sunkpy_backup_late_timestamp_seconds/database/{where}"] <= now + 3600


def test_verify_reads_the_newest_of_the_bucket_and_compares_the_others(database: Database, bucket: Bucket):
    def verify() -> list[str]:
        script = "backup-mariadb verify 2>&1 || true"
        return database.run(*bucket.env(), f"SUNKPY_REPORT={REPORT}", "bash", "-c", script).splitlines()

    database.add(YESTERDAY)
    database.run(*bucket.env(), "backup-mariadb")
    (newest,) = bucket.names() - {YESTERDAY}
    assert verify() == [f"copy-backup: {newest}: whole", f"copy-backup: {YESTERDAY}: whole"]
    database.add(YESTERDAY)
    with (bucket.folder / "old/slurm" / newest).open("r+b") as file:
        file.seek(50)
        file.write(b"changed")
    assert verify() == [
        f"copy-backup: {newest}: not whole in the bucket",
        f"copy-backup: {YESTERDAY}: the copy in the bucket has another checksum",
        "copy-backup: 2 of 2 backups are not whole",
    ]
    assert [entry[2:] for entry in database.report()["files"]] == [["both", False], ["both", False]]


def test_a_database_comes_back_onto_an_empty_volume(database: Database, bucket: Bucket):
    accounting = database.accounting

    def sql(query: str) -> str:
        return database.run("mariadb", "-N", "-e", query, NAME)

    sql("CREATE TABLE records (id INT); INSERT INTO records VALUES (1)")
    assert "copy-backup: http://" in database.run(*bucket.env(), "backup-mariadb")
    sql("INSERT INTO records VALUES (2)")
    restore = [*bucket.env(), "SUNKPY_RESTORE_FROM=s3", "start-mariadb"]
    assert database.run(*restore) == ""  # this volume is in use
    for process in (accounting.slurmdbd, accounting.mariadb):
        process.terminate()
        process.wait()
    shutil.rmtree(database.root / "var/lib/mysql/data")
    assert "copy-backup: slurm_acct_db-" in database.run(*restore)
    assert not list((database.root / "var/lib/mysql").glob("restore*"))
    accounting.start_mariadb()
    accounting.start_slurmdbd()
    assert sql("SELECT * FROM records") == "1\n"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    suite = os.environ.get("SLURM_SUITE", "trixie")
    slurm = RealSlurm(tmp_path_factory.mktemp("slurm"), suite, machines=MACHINES)
    give_key(slurm.root, 401)
    (slurm.root / "backup").mkdir()
    for folder in ("backup", "var/lib/slurm"):
        os.chown(slurm.root / folder, 401, 401)
    yield slurm
    slurm.stop()


async def states_of(admin: Slurm) -> dict[int, str]:
    try:
        found = await admin.jobs_state()
    except errors.SlurmError:
        return {}
    return {int(job): next(iter(state)) for job, state in found.items()}


async def test_a_queue_comes_back_into_an_empty_state(slurm: RealSlurm, bucket: Bucket):
    """As when slurmctld is killed: what began later is not known, and what ended later runs until its node says so."""
    admin = connect(slurm, "slurm")
    await happens(slurm, lambda: is_usable(admin))
    waits, goes_on, ends = (submit(slurm, *args) for args in (("--hold",), (), ()))
    saved = {waits: "PENDING", goes_on: "RUNNING", ends: "RUNNING"}

    async def all_are_as_saved() -> bool:
        return await states_of(admin) == saved

    async def are_on_disk() -> bool:
        return is_saved(slurm.root / STATE[1:] / "job_state", "as saved")

    async def slurmctld_has_ended() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", slurm.slurmctld_port)) != 0

    await happens(slurm, all_are_as_saved)
    slurm.as_user(401, "scontrol", "update", f"job={waits}", "comment=as saved")
    await happens(slurm, are_on_disk)
    pid_file = slurm.root / STATE[1:] / "slurmctld.pid"  # next-job-id takes it for that of one that was killed
    pid_file.symlink_to("/run/slurmctld/slurmctld.pid")
    os.chown(pid_file, 401, 401, follow_symlinks=False)
    heartbeat = pid_file.with_name("heartbeat")  # of two slurmctld; a restored one would be taken for a sign of life
    heartbeat.write_bytes(bytes(16))
    os.chown(heartbeat, 401, 401)
    assert "copy-backup: http://" in slurm.as_user(401, *bucket.env(), "backup-state")
    slurm.as_user(401, "scancel", str(ends))
    submit(slurm, "--hold")
    assert "stays" in slurm.as_user(401, *bucket.env(), "restore-state")
    (slurm.root / "var/lib/slurm/hold").touch()
    slurm.send("TERM", "slurmctld")
    await happens(slurm, slurmctld_has_ended)
    shutil.rmtree(slurm.root / STATE[1:])
    slurm.as_user(401, *bucket.env(), "restore-state")
    assert pid_file.is_symlink()
    assert not heartbeat.exists()
    (slurm.root / "var/lib/slurm/hold").unlink()
    await happens(slurm, all_are_as_saved)
    await admin.close()


def test_a_backup_under_load_has_each_file_whole(slurm: RealSlurm):
    """While jobs come and go, and slurmctld saves them."""
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            slurm.as_user(401, "scancel", *(str(submit(slurm, "--hold")) for _ in range(5)))

    busy = threading.Thread(target=churn)
    busy.start()
    try:
        for _ in range(8):
            slurm.as_user(401, "backup-state")
    finally:
        done.set()
        busy.join()
    for archive in (slurm.root / "backup").glob("state-*"):
        with tarfile.open(archive) as tar:
            files = {member.name: member.size for member in tar if member.isfile()}
            assert files.keys() >= {"./clustername", "./job_state", "./node_state"}
            assert not [name for name in files if name.endswith(".new")]
            job_state = tar.extractfile("./job_state")
            assert job_state is not None
            assert b"as saved" in job_state.read()


def submit(slurm: RealSlurm, *args: str) -> int:
    script = ("--parsable", "--output=/dev/null", "--chdir=/tmp", "--mem=10", "--wrap=sleep 300")
    return int(slurm.as_user(401, "sbatch", *args, *script))
