"""Many users as values, the same for charts/slurm, for charts/openldap and for the accounts process."""

from __future__ import annotations

import base64
import random
from typing import Final

from demo.person import Key

GROUP: Final = "lab"
_GROUPS: Final = {GROUP: {"gid": 5100}}
_ED25519: Final = b"\0\0\0\x0bssh-ed25519\0\0\0 "


class Crowd:
    """Users p0, p1 …, each with an SSH key. `key` is that of those who log in: `first` and `last`, `each` of them."""

    def __init__(self, size: int, key: Key, *, each: int) -> None:
        self.size, self.key = size, key
        names = [f"p{number}" for number in range(size)]
        self.first, self.last = names[:each], names[-each:]

    def values(self) -> dict[str, object]:
        return {"users": {"people": self._people(), "groups": _GROUPS}, "accounts": {"wanted": self.wanted()}}

    def entries(self) -> dict[str, object]:
        return {"people": self._people(), "groups": _GROUPS}

    def wanted(self) -> dict[str, object]:
        users: dict[str, object] = {f"p{number}": {"accounts": {"default": {}}} for number in range(self.size)}
        return {"accounts": {"default": {}}, "users": users}

    def _people(self) -> dict[str, object]:
        chance, known = random.Random(1), {*self.first, *self.last}
        people: dict[str, object] = {}
        for number in range(self.size):
            name = f"p{number}"
            key = self.key.public if name in known else _public_key(chance)
            people[name] = {"uid": 10000 + number, "fullName": f"Person {number}", "group": GROUP, "sshKeys": [key]}
        return people


def _public_key(chance: random.Random) -> str:
    """Return a public key without a private one, as long and as hard to compress as a real one."""
    return f"ssh-ed25519 {base64.b64encode(_ED25519 + chance.randbytes(32)).decode()}"
