"""What holds for all tests: no example fails because the machine is busy. What must be fast is measured by benches."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("sunkpy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sunkpy")
