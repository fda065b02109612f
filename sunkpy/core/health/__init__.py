"""The health of Nodes: which signals say that a Node is sick, and how it is drained, cured and returned to service.

* `rules`: what counts as a signal, as the values of chart sunkpy say; `known`: ready-made rules by name.
* `verification`: how the site's check of a machine ended, which runs before slurmd.
* `signals`: whether a Node and its slurmd pod show the signal of a rule.
* `record`: the health record that stands on a Node; readers of the record need no rules.
* `decide`: the next step of a Node.
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
