"""The daemons of our own images as processes on loopback ports: no cluster, no container.

`RealSlurm` is slurmctld, slurmrestd and one slurmd; `RealAccounting` is MariaDB and slurmdbd, started by the images'
own scripts, each to be killed by itself.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from pathlib import Path

import msgspec

from devcluster.waiting import wait_until
from sunkpy.slurm.auth import MintedToken
from tests import process_tree
from tests.ports import free_ports
from tests.roots import discard, unpack

ROOT = Path(__file__).parents[3]
NODE = "gpu-000-001"
DATABASE = "slurm_acct_db"
PASSWORD = "a'b\\c#d e`f$g%h"
"""All that SQL, bash and Slurm's reader of its configuration may take amiss."""
_ENDS_S = 60

_SLURM_CONF = """\
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
StateSaveLocation=/var/lib/slurm
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
KillWait=2
PartitionName=low Nodes=ALL Default=YES PriorityTier=1
PartitionName=high Nodes=ALL PriorityTier=10
"""

_START = """\
#!/bin/bash
mount -t proc proc /proc && umount -l /mnt && mount -t tmpfs tmpfs /tmp && cd /tmp
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
keep() { while :; do "$@"; sleep 0.2; done; } # as its StatefulSet or DaemonSet would
. /start-slurmctld
. /start-machines
export SLURM_JSON=compact SLURMRESTD_JSON=compact
rest="slurmrestd -t 20 -s $2 -a rest_auth/jwt 127.0.0.1:$1"
keep as slurmrestd env MALLOC_ARENA_MAX=2 SLURM_JWT=daemon $rest >> /var/log/slurmrestd.log 2>&1 &
while read -r signal name; do pkill "-$signal" -x "$name"; done
"""

KEEP_SLURMCTLD = """\
keep as slurm /usr/sbin/slurmctld -i -D >> /var/log/slurmctld.log 2>&1 &
"""

_ONE_SLURMD_CONF = """\
MaxNodeCount=16
PrologFlags=Alloc
Epilog=/etc/slurm/epilog.sh
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=batch_sched_delay=0
"""

_KEEP_SLURMD = f"""\
keep /usr/sbin/slurmd -D -Z -N {NODE} --conf 'CPUs=2 RealMemory=1000 Feature=gpu' >> /var/log/slurmd.log 2>&1 &
"""

TELL_BEGUN = "touch /var/tmp/begun-$SLURM_JOB_ID\n"
"""A line of a script: where it has set its traps."""

_EPILOG = """\
#!/bin/bash
echo "$SLURM_JOB_ID $SLURM_JOB_COMMENT" >> /var/log/epilogs
"""

_SLURMDBD_CONF = """\
AuthType=auth/slurm
AuthInfo=use_client_ids
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
DbdHost=localhost
DbdPort={port}
SlurmUser=slurm
PidFile=/run/slurmdbd/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageLoc=slurm_acct_db
StorageUser=slurm
"""

_ACCOUNTING_LINES = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStorageEnforce=associations,limits,qos
GresTypes=gpu
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
"""


class Machines(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs run on: lines of slurm.conf, a script that starts it, and files that Slurm looks for beside its own.

    `chart`: slurm.conf of a chart, instead of the one of these tests; of what it says only addresses are changed.
    `slurmctld`: what keeps slurmctld running.
    """

    conf: str = ""
    chart: str = ""
    start: str = ""
    slurmctld: str = KEEP_SLURMCTLD
    files: Mapping[str, str] = {}


ONE_SLURMD = Machines(conf=_ONE_SLURMD_CONF, start=_KEEP_SLURMD, files={"epilog.sh": _EPILOG})


def _on_loopback(conf: str, ports: Mapping[str, int]) -> str:
    """slurm.conf whose daemons are all here, each on a port of its own."""
    lines = [line for line in conf.splitlines() if line.partition("=")[0] not in ports]
    two = conf.count("SlurmctldHost=") == 2
    ctlds = iter(("first(127.0.0.1)", "second(127.0.0.2)") if two else ("localhost(127.0.0.1)",))
    hosts: dict[str, Iterator[str]] = {"SlurmctldHost": ctlds, "AccountingStorageHost": repeat("localhost")}
    named = [(line, line.partition("=")[0]) for line in lines]
    lines = [f"{name}={next(hosts[name])}" if name in hosts else line for line, name in named]
    return "\n".join([*lines, *(f"{name}={port}" for name, port in ports.items()), ""])


class RealAccounting:
    """MariaDB and slurmdbd. `port` of slurmdbd; `root` is also where a RealSlurm that uses it finds its programs.

    `conf`: further lines of slurmdbd.conf.
    """

    def __init__(self, folder: Path, suite: str, *, conf: str = "") -> None:
        self.root, self._database = folder / "root", folder / "database"
        unpack(suite, ("slurmctld", "slurmdbd", "slurmrestd", "slurmd"), self.root)
        unpack(suite, ("mariadb",), self._database)
        self.port, self._database_port = free_ports(2)
        for root, owner in ((self.root, 401), (self._database, 404)):
            give(root / "keys/password", PASSWORD.encode(), owner)
            (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        for name in ("slurm.key", "jwt.key"):
            give(self.root / "keys" / name, secrets.token_bytes(64), 401)
        conf = _SLURMDBD_CONF.format(port=self.port, database_port=self._database_port) + conf
        give(self.root / "config/slurmdbd.conf", conf.encode(), 401)
        os.chown(self.root / "etc/slurm", 401, 401)
        self.mariadb = self.start_mariadb()
        self.slurmdbd = self.start_slurmdbd()

    def start_mariadb(self) -> subprocess.Popen[bytes]:
        """MariaDB as its image starts it."""
        listens = (f"--port={self._database_port}", "--bind-address=127.0.0.1")
        self.mariadb = start_in(self._database, "start-mariadb", 404, *listens)
        return self.mariadb

    def start_slurmdbd(self) -> subprocess.Popen[bytes]:
        """slurmdbd as its image starts it; it answers once it has its database."""
        env = {"SUNKPY_DATABASE_HOST": "127.0.0.1", "SUNKPY_DATABASE_PORT": str(self._database_port)}
        self.slurmdbd = start_in(self.root, "start-slurmdbd", 401, env=env)
        _wait_for_port(self.port, self)
        return self.slurmdbd

    def in_database(self, *command: str) -> str:
        """Output of a program of MariaDB's image, beside MariaDB."""
        host = {"SUNKPY_DATABASE_HOST": "127.0.0.1", "SUNKPY_DATABASE_PORT": str(self._database_port)}
        return _output_in(self._database, 404, command, host)

    def sacctmgr(self, *args: str) -> str:
        """Output of sacctmgr, as SlurmUser."""
        return self.output("sacctmgr", "--immediate", "--parsable2", "--noheader", *args)

    def output(self, *command: str) -> str:
        """Output of a command of Slurm, as SlurmUser."""
        return _output_in(self.root, 401, command, {})

    def records(self, of: str = "jobid") -> list[tuple[str, str]]:
        """Id, or what else sacct has of a job, and state of each record; of a job with several, all."""
        how = ("--allocations", "--duplicates", "--allusers", "--noheader", "--parsable2", f"--format={of},state")
        lines = self.output("sacct", *how, "--starttime=now-1day").split()
        return sorted((job, state) for job, _, state in (line.partition("|") for line in lines))

    def logs(self) -> str:
        """The last lines of both."""
        files = (self._database / "var/log/start-mariadb.log", self.root / "var/log/start-slurmdbd.log")
        return _last_lines(files)

    def stop(self) -> None:
        """Both end, the database last."""
        for process in (self.slurmdbd, self.mariadb):
            process.kill()
            process.wait()
        discard(self._database)


class RealSlurm:
    """A running Slurm. `url` of slurmrestd, `key_file` to mint tokens with. In the folder of the accounting it lives in
    its root.

    `people`: users with their uids, whom it knows and to whom jobs of pods may belong.
    """

    def __init__(
        self,
        folder: Path,
        suite: str,
        accounting: RealAccounting | None = None,
        *,
        people: Mapping[str, int] | None = None,
        machines: Machines = ONE_SLURMD,
        cluster: str = "it",
    ) -> None:
        self.root = folder / "root"
        if not self.root.exists():
            unpack(suite, ("slurmctld", "slurmrestd", "slurmd"), self.root)
        ctld_port, slurmd_port, rest_port = free_ports(3)
        etc = self.root / "etc/slurm"
        conf = f"ClusterName={cluster}\n" + _SLURM_CONF + machines.conf + (_ACCOUNTING_LINES if accounting else "")
        conf = machines.chart or conf
        if people and not machines.chart:
            conf += "JobSubmitPlugins=lua\n"
        self._ports = {"SlurmctldPort": ctld_port, "SlurmdPort": slurmd_port}
        self._ports |= {"AccountingStoragePort": accounting.port} if accounting else {}
        self.configure(conf)
        (self.root / "var/lib/slurm/state").mkdir(exist_ok=True)
        os.chown(self.root / "var/lib/slurm/state", 401, 401)
        self._people = people or {}
        if people:
            shutil.copy(ROOT / "charts/slurm/files/job_submit.lua", etc)
            self.know(people)
        for name, text in machines.files.items():
            (etc / name).write_text(text)
            (etc / name).chmod(0o755)
        if "cgroup.conf" not in machines.files:
            (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        self.key_file = etc / "jwt.key"
        for key in (etc / "slurm.key", self.key_file):
            if not key.exists():
                give(
                    key,
                    (accounting.root / "keys" / key.name).read_bytes() if accounting else secrets.token_bytes(64),
                    401,
                )
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (self.root / "start-machines").write_text(machines.start)
        (self.root / "start-slurmctld").write_text(machines.slurmctld)
        start = self.root / "start"
        start.write_text(_START)
        start.chmod(0o755)
        self.url = f"http://127.0.0.1:{rest_port}"
        plugins = "slurmctld,slurmdbd" if accounting else "slurmctld"
        # As a container has it: from below a chroot Linux makes no user namespace.
        enter = f"pivot_root . mnt && exec chroot . /start {rest_port} {plugins}"
        own = f"mount --rbind {self.root} {self.root}; cd {self.root}"
        machine = f"{own}; mount --rbind /dev dev; mount --rbind /sys sys"
        into = f"hostname localhost; {machine}; {enter}"
        namespaces = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        self._process = subprocess.Popen([*namespaces, "bash", "-c", into], stdin=subprocess.PIPE, text=True)
        _wait_for_port(rest_port, self)

    @property
    def pid(self) -> int:
        """The process below which all others are."""
        return self._process.pid

    def running(self, command: str) -> list[int]:
        """Ids of processes of this Slurm, also of its jobs, whose whole command line matches the pattern `command`."""
        return process_tree.running(self.pid, command)

    @property
    def slurmctld_port(self) -> int:
        """Where slurmctld listens, from 26.05 on for HTTP too."""
        return self._ports["SlurmctldPort"]

    def configure(self, conf: str) -> None:
        """This is its slurm.conf, from the next start of a daemon on."""
        (self.root / "etc/slurm/slurm.conf").write_text(_on_loopback(conf, self._ports))

    def send(self, signal: str, daemon: str) -> None:
        """A signal such as KILL to slurmctld, slurmd or slurmrestd; one that dies is started again."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{signal} {daemon}\n")
        self._process.stdin.flush()

    def starts(self, daemon: str) -> int:
        """How often slurmctld or slurmd has started."""
        return (self.root / f"var/log/{daemon}.log").read_text().count(f"{daemon} version ")

    def has_saved(self, text: str) -> bool:
        """The jobs that the next slurmctld will find have this text among them. One that is killed forgets seconds."""
        return is_saved(self.root / "var/lib/slurm/job_state", text)

    def has_begun(self, job: int) -> bool:
        """The job's script has come to its line `TELL_BEGUN`."""
        return (self.root / f"var/tmp/begun-{job}").exists()

    def epilogs(self) -> dict[int, str]:
        """The comment of each job whose epilog has run."""
        told = self.root / "var/log/epilogs"
        lines = [line.partition(" ") for line in told.read_text().splitlines()] if told.exists() else []
        return {int(job): comment for job, _, comment in lines}

    def know(self, people: Mapping[str, int]) -> None:
        """Make these people its users, in addition to those of the images."""
        images = self.root / "etc/passwd.image"
        if not images.exists():
            shutil.copy(self.root / "etc/passwd", images)
        lines = (f"{name}:x:{uid}:{uid}::/tmp:/bin/bash\n" for name, uid in people.items())
        (self.root / "etc/passwd").write_text(images.read_text() + "".join(lines))

    def run_as(self, user: str, *command: str) -> tuple[int, str]:
        """Exit code and output of a command of Slurm as one of its people, who shows a token."""
        token = MintedToken(self.key_file, user=user).token()
        argv, env = _argv_in(self.root, self._people.get(user, 401), command), _environment({"SLURM_JWT": token})
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, cwd="/")
        return done.returncode, done.stdout + done.stderr

    def logs(self) -> str:
        """The last lines of each daemon."""
        return _last_lines(sorted((self.root / "var/log").glob("slurm*.log")))

    def as_user(self, uid: int, *command: str) -> str:
        """Output of a command of Slurm, by somebody on the node."""
        return _output_in(self.root, uid, command, {}).strip()

    def stop(self) -> None:
        """Every process goes with its namespace, whose first one ends with its input, and is gone after all others."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_ENDS_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        discard(self.root.parent)


def is_saved(job_state: Path, text: str) -> bool:
    """The saved jobs have this text among them. While slurmctld replaces the file, there is none."""
    with contextlib.suppress(FileNotFoundError):
        return text.encode() in job_state.read_bytes()
    return False


def give(file: Path, content: bytes, owner: int) -> None:
    """A file that its owner alone may read."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    file.chmod(0o600)
    os.chown(file, owner, owner)


def _argv_in(root: Path, user: int, command: Iterable[str]) -> list[str]:
    """What runs a command in a root of its own; it becomes the command, under the same pid."""
    into = f'mount --bind /dev {root}/dev; exec chroot --userspec={user}:{user} {root} "$@"'
    return ["unshare", "--mount", "bash", "-c", into, "-", *command]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", **more}


def start_in(
    root: Path, script: str, user: int, *args: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A script of an image, in a root of its own; `/var/log` there has what it says."""
    argv, environment = _argv_in(root, user, (f"/usr/local/bin/{script}", *args)), _environment(env or {})
    with (root / f"var/log/{script}.log").open("ab") as log:
        return subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")


def _output_in(root: Path, user: int, command: Iterable[str], env: Mapping[str, str]) -> str:
    argv = _argv_in(root, user, command)
    done = subprocess.run(argv, env=_environment(env), capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


def _last_lines(files: Iterable[Path]) -> str:
    return "\n".join(f"{file.name}: {line}" for file in files for line in file.read_text().splitlines()[-8:])


def _wait_for_port(port: int, slurm: RealSlurm | RealAccounting) -> None:
    def listens() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    if wait_until(listens, timeout_s=180, every_s=0.1):
        return
    said = slurm.logs()
    slurm.stop()
    raise TimeoutError(f"nobody listens on {port}:\n{said}")
