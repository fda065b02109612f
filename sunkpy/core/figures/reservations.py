"""Metrics of Slurm's licenses, under the names that other exporters of Slurm use, and of Slurm's reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from sunkpy.core.figures.family import MetricFamily, Sample


class License(msgspec.Struct, frozen=True, kw_only=True):
    """How many licenses of one name Slurm has, and how many are used, free and kept by reservations."""

    name: str
    total: int = 0
    used: int = 0
    free: int = 0
    reserved: int = 0


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """A Slurm reservation. `nodes`: how many nodes it has now. Times are in seconds since 1970."""

    name: str
    nodes: int = 0
    starts_s: int = 0
    ends_s: int = 0


_OF_LICENSE: Final[Mapping[str, tuple[str, Callable[[License], int]]]] = {
    "total": ("Licenses of this name that exist", lambda each: each.total),
    "used": ("Licenses of this name that jobs have", lambda each: each.used),
    "free": ("Licenses of this name that are free", lambda each: each.free),
    "reserved": ("Licenses of this name that reservations keep", lambda each: each.reserved),
}
_OF_RESERVATION: Final[Mapping[str, tuple[str, Callable[[Reservation], int]]]] = {
    "nodes": ("How many nodes the reservation has", lambda each: each.nodes),
    "start_seconds": ("When the reservation begins, in seconds since 1970", lambda each: each.starts_s),
    "end_seconds": ("When the reservation ends, in seconds since 1970", lambda each: each.ends_s),
}


def license_families(licenses: Iterable[License]) -> Iterator[MetricFamily]:
    """Yield the metrics of Slurm's licenses, `slurm_lic_*`, with one series for each license."""
    known = tuple(licenses)
    for end, (text, of) in _OF_LICENSE.items():
        samples = [Sample((each.name,), of(each)) for each in known]
        yield MetricFamily(name=f"slurm_lic_{end}", help=text, labels=("license",), samples=samples)


def reservation_families(reservations: Iterable[Reservation]) -> Iterator[MetricFamily]:
    """Yield the metrics of Slurm's reservations, `sunkpy_reservation_*`, with one series for each reservation."""
    known = tuple(reservations)
    for end, (text, of) in _OF_RESERVATION.items():
        samples = [Sample((each.name,), of(each)) for each in known]
        yield MetricFamily(name=f"sunkpy_reservation_{end}", help=text, labels=("reservation",), samples=samples)
