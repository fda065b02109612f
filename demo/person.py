"""Ann, a user of the demo's Slurm cluster: her entry in the values, her key, and her ssh login."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from demo.stack import ROOT, Stack
from devcluster import packages, shell
from devcluster.waiting import NeverSo, wait

NAME: Final = "ann"
ACCOUNT: Final = "chem"
NAMESPACE: Final = "chem"
"""The namespace whose pods belong to Ann in Slurm."""
CLIENT: Final = {"ssh": "openssh-client"}
_FOLDER: Final = ROOT / "build" / "demo"

Say = Callable[[str], str]
"""Runs a shell command as a user in the home directory and returns its output; raises CommandFailed if it fails."""


class Key:
    """A user's ssh key pair in a file; it is made if the file does not exist."""

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            made = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as private:
                private.write(made)

    @property
    def public(self) -> str:
        """The public key as values take it: `ssh-ed25519 AAAA…`."""
        key = load_ssh_private_key(self.file.read_bytes(), password=None)
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def key() -> Key:
    """Return Ann's key pair."""
    return Key(_FOLDER / NAME)


def values() -> Mapping[str, object]:
    """Return values of charts/slurm that let Ann log in and submit jobs under her account."""
    person = {"uid": 2001, "groups": [ACCOUNT], "sshKeys": [key().public]}
    return {
        "users": {"people": {NAME: person}, "groups": {ACCOUNT: {"gid": 5001}}},
        "accounts": {"wanted": {"accounts": {ACCOUNT: {}}, "users": {NAME: {"accounts": {ACCOUNT: {}}}}}},
    }


def access() -> Mapping[str, object]:
    """Return the entry of `scheduler.access` that makes the pods of Ann's namespace hers in Slurm."""
    return {"namespaces": [NAMESPACE], "users": [NAME], "accounts": [ACCOUNT], "partitions": ["*"]}


@contextmanager
def logged_in(stack: Stack, *, timeout_s: float = 60) -> Iterator[Say]:
    """Yield a function that runs commands as Ann in the login pod, by ssh through its Service.

    A command may take `timeout_s`.
    """
    packages.ensure(CLIENT, progress=print)
    with forwarded(stack) as port:
        knock = shell_of(NAME, key(), port)
        wait(lambda: knock("echo in") == "in", timeout_s=120, what=f"{NAME} to come in by ssh")
        yield shell_of(NAME, key(), port, timeout_s=timeout_s)


def shell_of(name: str, key_: Key, port: int, *, timeout_s: float = 60) -> Say:
    """Return a function that runs a command as a user, with a new ssh login at a port of this machine each time."""
    argv = ssh(key_, "-p", str(port), f"{name}@127.0.0.1")
    return lambda command: shell.run([*argv, command], timeout_s=timeout_s).strip()


def ssh_to_own(name: str, key_: Key, port: int) -> Sequence[str]:
    """Return the ssh command that logs a user in to a personal login pod, through the shared one at a local port."""
    shared = shlex.join([*ssh(key_, "-p", str(port), f"{name}@127.0.0.1"), "my-login"])
    return ssh(key_, f"-oProxyCommand={shared}", f"{name}@mine")


def ssh(key_: Key, *words: str) -> Sequence[str]:
    """Return the ssh command with a key, that accepts any host key."""
    options = ("BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
    return ["ssh", "-F", "none", *(f"-o{option}" for option in options), "-i", str(key_.file), *words]


@contextmanager
def forwarded(stack: Stack, part: str = "login", to: int = 22) -> Iterator[int]:
    """Yield a port of this machine that is forwarded to port `to` of the Service of a part, such as the login pods.

    kubectl chooses it, and listens there.
    """
    program = str(stack.bin_dir / "kubectl") if stack.bin_dir else "kubectl"
    service = ("-n", stack.namespace, f"svc/{stack.release}-{part}", f":{to}")
    with tempfile.NamedTemporaryFile() as said:
        process = subprocess.Popen(
            [program, "port-forward", "--address=127.0.0.1", *service],
            env={**os.environ, "KUBECONFIG": str(stack.kubeconfig)},
            stdin=subprocess.DEVNULL,
            stdout=said,
        )

        def port() -> int:
            if process.poll() is not None:
                raise NeverSo(f"kubectl port-forward {' '.join(service)}: ended with {process.returncode}")
            chosen = re.search(r"127\.0\.0\.1:(\d+) -> ", Path(said.name).read_text())
            return int(chosen[1]) if chosen else 0

        try:
            yield wait(port, timeout_s=90, what=f"a port that kubectl forwards to {part}")
        finally:
            process.terminate()
            process.wait()
