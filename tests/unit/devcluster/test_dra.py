from pathlib import Path

import pytest

from devcluster import dra
from devcluster.errors import DevclusterError
from devcluster.layout import Layout


@pytest.mark.parametrize(("name", "fits"), [("x" * 16, True), ("x" * 17, False), ("x" * 20, False)])
def test_a_cluster_whose_driver_could_open_no_socket_is_refused_with_how_much_is_too_long(name: str, fits: bool):
    layout = Layout(root=Path("/var/lib/sunkpy-devcluster"), name=name, slot=0)
    if fits:
        dra.check_sockets(layout)
        return
    with pytest.raises(DevclusterError, match=f"a name that is {len(name) - 16} shorter"):
        dra.check_sockets(layout)
