"""Look at a machine before Equipoise runs on it: what is missing, what will hurt, and what to do about it.

`checks` decides, from plain values; `looking` finds these values out.
"""

from equipoise.doctor.checks import CheckResult, CheckStatus
from equipoise.doctor.probes import CheckOptions, examine

__all__ = ["CheckOptions", "CheckResult", "CheckStatus", "examine"]
