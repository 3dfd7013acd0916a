"""Check a machine before Equipoise runs on it: what is missing, what limits it, and the remedy.

`checks` decides, from plain values; `looking` finds these values out.
"""

from equipoise.doctor.checks import CheckResult, CheckStatus
from equipoise.doctor.probes import CheckOptions, examine

__all__ = ["CheckOptions", "CheckResult", "CheckStatus", "examine"]
