"""A node's way back: which signals say that it is sick, and from the signal to the drain, the cure and the return.

* `rules`: what counts as a signal, as the values of chart sunkpy say it; `known`: such rules by name.
* `verification`: the site's check before slurmd, and how it ended.
* `signals`: whether a Node and its slurmd pod show one.
* `record`: where a Node stands, as it is written on it; who reads it, needs no rules.
* `decide`: the next step.
"""

from sunkpy.core.health.decide import HealthStep, HealthView, decide_health
from sunkpy.core.health.record import Record, State, drain_text, lifted_reason, read_record
from sunkpy.core.health.rules import Cure, HealthRules, Remedy, Rule

__all__ = [
    "Cure",
    "HealthRules",
    "HealthStep",
    "HealthView",
    "Record",
    "Remedy",
    "Rule",
    "State",
    "decide_health",
    "drain_text",
    "lifted_reason",
    "read_record",
]
