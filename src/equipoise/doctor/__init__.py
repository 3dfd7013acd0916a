"""Check a machine before Equipoise runs on it: what is missing, what limits it, and the remedy.

`checks` evaluates plain values; `probes` collects these values.
"""

from equipoise.doctor.checks import CheckResult, CheckStatus
from equipoise.doctor.probes import CheckOptions, examine

__all__ = ["CheckOptions", "CheckResult", "CheckStatus", "examine"]
