"""Rules by name for what others write."""

from sunkpy.core.health.known import KNOWN
from sunkpy.core.health.rules import Cure


def test_names_of_rules_are_unique():
    names = [name for rules in KNOWN.values() for name in rules]
    assert len(names) == len(set(names))


def test_each_source_says_in_its_own_way_what_is_bad():
    assert all(rule.bad_values == ("True",) for of in ("nodeProblemDetector", "aks") for rule in KNOWN[of].values())
    assert all(rule.bad_values == ("False",) for rule in KNOWN["eks"].values())


def test_only_a_reboot_lifts_a_drain_of_slurm():
    lifts = {name: rule.cured_by for name, rule in KNOWN["slurm"].items() if rule.slurm_reason}
    assert lifts.pop("KillTaskFailed") is Cure.REBOOT
    assert set(lifts.values()) == {Cure.PERSON}
