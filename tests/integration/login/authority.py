"""An authority of ssh: it signs keys of people as step-ca, Vault or Teleport do, by OpenSSH's own program."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from demo.person import Key

_HOUR: Final = "-1m:+1h"


class Authority:
    """Who signs the keys of people."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key, self._made = folder, Key(folder / "ca"), 0

    @property
    def public(self) -> str:
        """As values take it."""
        return self._key.public

    def sign(self, principal: str, *, valid: str = _HOUR, serial: int = 1, options: tuple[str, ...] = ()) -> Key:
        """A new key, and beside it its certificate, which ssh shows first. `options` as in ssh-keygen(1)."""
        self._made += 1
        key = Key(self._folder / f"signed-{self._made}")
        public = key.file.with_suffix(".pub")
        public.write_text(f"{key.public}\n")
        limits = [word for option in options for word in ("-O", option)]
        about = ["-I", f"{principal}@idp", "-n", principal, "-V", valid, "-z", str(serial), *limits]
        subprocess.run(["ssh-keygen", "-q", "-s", str(self._key.file), *about, str(public)], check=True, timeout=60)
        return key

    def revoke(self, serial: int) -> bytes:
        """A KRL, in which that certificate of this authority is."""
        ca, listed, made = (self._folder / name for name in ("ca.pub", "revoked", "krl"))
        ca.write_text(f"{self.public}\n")
        listed.write_text(f"serial: {serial}\n")
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(made), "-s", str(ca), str(listed)], check=True, timeout=60)
        return made.read_bytes()
