from pathlib import Path

from devcluster.layout import Layout
from devcluster.vm import base, machine

LAYOUT = Layout(root=Path("/r"), name="x", slot=1)


def test_machines_share_the_system_and_nothing_else():
    system = base.Base(Path("/c/vm/1"))
    one, two = (machine.qemu(LAYOUT, LAYOUT.machine(number), system).argv for number in (1, 2))
    assert [word for word in one if word not in two] != []
    differ = {a for a, b in zip(one, two, strict=True) if a != b}
    assert {word.split("=")[0] for word in differ} == {
        "file:/r/x/log/vm-1-console.log",
        "file",
        "tap,id",
        "virtio-net-pci,netdev",
    }
    assert one[one.index("-smp") + 1] == "4,sockets=2,cores=1,threads=2"
    assert f"file={system.disk},if=virtio,format=raw,cache=unsafe,readonly=on" in one
    assert "if=virtio,format=raw,cache=unsafe,readonly=on" not in "".join(differ)
