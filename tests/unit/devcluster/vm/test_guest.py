import ipaddress
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from devcluster import node
from devcluster.binaries import Binaries
from devcluster.layout import Layout
from devcluster.process import Daemon
from devcluster.shell import CommandFailed
from devcluster.vm import base, guest, machine

LAYOUT = Layout(root=Path("/r"), name="x", slot=1)
MACHINE = LAYOUT.machine(1)
BINARIES = Binaries(cache=Path("/c"))


def test_programs_run_as_on_every_other_node():
    containerd, kubelet, proxy = guest.programs(LAYOUT, MACHINE, BINARIES)
    assert "--hostname-override=vm-1" in kubelet.argv
    assert f"--node-ip={MACHINE.ip}" in kubelet.argv
    assert guest.script(proxy).startswith("exec /c/bin/kubernetes-")
    assert guest.script(containerd).startswith("export PATH=/c/bin/containerd-")


def test_a_script_keeps_words_together(tmp_path: Path):
    script = tmp_path / "daemon"
    script.write_text(guest.script(Daemon(name="a", argv=["printf", "%s|", "a b", "$c", "'"], env={"D": "e f"})))
    assert subprocess.run(["bash", script], capture_output=True, text=True, check=True).stdout == "a b|$c|'|"


def test_what_the_programs_read_is_on_the_disk():
    names = {path.name for path in guest.read_by_programs(LAYOUT, MACHINE, BINARIES)}
    assert names == {"ctr", "containerd-shim-runc-v2", "kubelet-vm-1.conf", "kube-proxy.conf", "resolv.conf"}


def test_the_machine_knows_its_name_and_addresses():
    assert guest.settings(LAYOUT, MACHINE).splitlines() == [
        "name=vm-1",
        "home=/r/x/nodes/vm-1",
        f"ip={MACHINE.ip}",
        f"gateway={LAYOUT.host_ip}",
    ]


def test_machines_are_told_apart_by_an_id_that_stays():
    ids = [guest.machine_id(LAYOUT.machine(number)) for number in (1, 2, 1)]
    assert ids[0] == ids[2] != ids[1]
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


def test_systemd_starts_what_makes_the_machine_a_node():
    units = {name: (base.HERE / name).read_text() for name in guest.UNITS}
    assert f"systemd.unit={guest.UNIT} " in f"{machine.SYSTEMD} "
    assert "ExecStart=/bin/bash /disk/boot\n" in units["node.service"]
    assert "ExecStart=/bin/bash /disk/daemons/%i\n" in units["daemon@.service"]


def test_cgroups_of_a_machine_come_of_systemd():
    assert "SystemdCgroup = true" in node.containerd_config(MACHINE, systemd=True)
    assert "SystemdCgroup = false" in node.containerd_config(LAYOUT.node(1))
    assert guest.kubelet_config(LAYOUT, MACHINE)["cgroupDriver"] == "systemd"
    assert guest.kubelet_config(LAYOUT, MACHINE)["cgroupRoot"] == "/"


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[guest.NodeLayout]:
    """What answers in a machine, here: each connection is a `serve.sh` of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(guest, "PORT", listener.getsockname()[1])

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                script = ["bash", str(base.HERE / "serve.sh")]
                subprocess.run(script, stdin=connection, stdout=connection, check=False)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield msgspec.structs.replace(MACHINE, ip=ipaddress.IPv4Address("127.0.0.1"))
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_a_command_gives_what_it_wrote(serving: guest.NodeLayout):
    assert guest.run(serving, "echo one; echo two >&2") == "one\ntwo\n"


def test_a_command_reads_a_file(serving: guest.NodeLayout, tmp_path: Path):
    (tmp_path / "big").write_bytes(b"\0\n" * 100_000)
    assert guest.run(serving, "wc -c", stdin=tmp_path / "big").strip() == "200000"


def test_a_command_that_fails_says_how(serving: guest.NodeLayout):
    with pytest.raises(CommandFailed, match="`echo no; exit 3` failed with exit code 3: no"):
        guest.run(serving, "echo no; exit 3")


def test_a_machine_that_dies_meanwhile_has_not_answered(serving: guest.NodeLayout):
    with pytest.raises(ConnectionError, match="vm-1 was cut off while it ran"):
        guest.run(serving, "kill -9 $PPID")
