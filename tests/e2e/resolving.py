"""What pods, jobs and people get when they look up names of Slurm nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from demo.stack import Stack

# A line of name, address, and the first label of the name that belongs to the address; "-" for what is not known.
_LOOK_UP = """\
for name in {names}; do
  address=$(getent hosts "$name") && address=${{address%% *}} || address=-
  back=$(getent hosts "$address") && read -r _ back _ <<< "$back" || back=-
  echo "$name $address ${{back%%.*}}"
done
"""

Answers = Mapping[str, tuple[str, str]]
"""Name → its address, and the first label of what that address is called."""


def looks_up(names: Iterable[str]) -> str:
    """A script of bash."""
    return _LOOK_UP.format(names=" ".join(names))


def read(said: Iterable[str]) -> Answers:
    """What the script printed."""
    found = (line.split() for line in said)
    return {name: (address, back) for name, address, back in found}


def wanted(stack: Stack) -> Answers:
    """The truth: slurmd pods by name, each under its address."""
    return {pod.name: (pod.status.pod_ip, pod.name) for pod in stack.slurmd_pods()}
