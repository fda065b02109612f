"""Kubernetes quantities as exact integers.

Source of the rule: k8s.io/apimachinery resource.Quantity (decimal and binary suffixes, decimal exponent; values are
rounded up, as Kubernetes does, so that a request is never made smaller than asked).
"""

from __future__ import annotations

import functools
import re
from decimal import ROUND_CEILING, Decimal

_LONGEST = 64
_LARGEST = 63  # decimal digits, before or behind the point; Kubernetes caps amounts at 2^63 and at nano
_FORM = re.compile(r"^([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([eE][+-]?[0-9]+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?$")
_SCALE: dict[str, Decimal] = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30),
    "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip

MIB = 2**20


class BadQuantity(ValueError):
    """The error that a text is not a Kubernetes quantity."""


def parse(text: str) -> Decimal:
    """Return the exact value of a quantity such as `500m`, `1.5Gi` or `2e3`.

    Raises:
        BadQuantity: the text is not a quantity.
    """
    match = _FORM.match(text[: _LONGEST + 1])
    if match is None:
        shown = repr(text[:_LONGEST])
        raise BadQuantity(f"{shown} is not a Kubernetes quantity: write a number with m, k, M, G, Ki, Mi, Gi …")
    number, exponent, suffix = match.groups()
    if len(text) > _LONGEST or abs(int((exponent or "e0")[1:])) > _LARGEST:
        raise BadQuantity(f"{text[:_LONGEST]!r} is too long for a quantity, or its exponent too large")
    return Decimal(number + (exponent or "")) * _SCALE[suffix or ""]


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


@functools.lru_cache(maxsize=4096)
def millicores(text: str) -> int:
    """Return a quantity of CPU in thousandths of a core, rounded up."""
    return _ceil(parse(text) * 1000)


@functools.lru_cache(maxsize=4096)
def whole(text: str) -> int:
    """Return a quantity as an integer, rounded up: bytes of memory, or the count of an extended resource."""
    return _ceil(parse(text))


@functools.lru_cache(maxsize=4096)  # nodes and pods of one kind have equal quantities
def base_units(resource: str, text: str) -> int:
    """Return a quantity in the unit in which amounts are added up: millicores for cpu, else units or bytes."""
    return millicores(text) if resource == "cpu" else whole(text)


def mib_up(size_bytes: int) -> int:
    """Return bytes as MiB, rounded up, for memory that somebody asks for."""
    return -(-size_bytes // MIB)


def mib_down(size_bytes: int) -> int:
    """Return bytes as MiB, rounded down, for memory that a node offers."""
    return size_bytes // MIB
