"""What cosign needs before it can sign."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def obstacle(key: str = "") -> str:
    """Return why cosign cannot sign, or an empty text. `key`: a file, or the address of a key in a KMS.

    cosign says the same only after the first image is pushed. It asks for the password of a file on stderr, which
    nobody sees.
    """
    if not shutil.which("cosign"):
        return "to sign takes cosign on the PATH: https://docs.sigstore.dev/cosign"
    if not key or ":" in key:
        return ""
    if not Path(key).is_file():
        return f"there is no key {key}: `cosign generate-key-pair` makes cosign.key and cosign.pub"
    if "COSIGN_PASSWORD" not in os.environ:
        return f"write the password of {key} into the environment variable COSIGN_PASSWORD; it may be empty"
    return ""
