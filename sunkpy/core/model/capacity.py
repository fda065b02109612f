"""The cpus, memory and GRES that a job has on a node, as Slurm reports them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.model.matching import Amounts, shortfalls


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """The cpus, memory and GRES of a job on one node. If Slurm did not report them, `cpus` and `memory_mib` are 0 and
    `gres` is None; see `core.model.gres:gres_counts`.
    """

    cpus: int = 0
    memory_mib: int = 0
    gres: Mapping[str, int] | None = None

    @property
    def amounts(self) -> Amounts:
        """The capacity in millicores, bytes, and the count of each GRES by its name."""
        return {"cpu": self.cpus * 1000, "memory": self.memory_mib * 2**20, **(self.gres or {})}

    def lacking(self, needs: Mapping[str, int], left: Mapping[str, int]) -> str:
        """Return the first resource of which less is `left` than the job needs, as text: `lacks cpu: needs 2, has 1`;
        empty if there is enough. A resource that Slurm did not report is not compared.
        """
        is_known = {"cpu": bool(self.cpus), "memory": bool(self.memory_mib)}
        known = {name: amount for name, amount in needs.items() if is_known.get(name, self.gres is not None)}
        return next((str(each) for each in shortfalls(known, {n: max(0, has) for n, has in left.items()})), "")
