"""Look at a machine before Equipoise runs on it: what is missing, what will hurt, and what to do about it.

`checks` decides, from plain values; `looking` finds these values out.
"""

from equipoise.doctor.checks import Finding, Status
from equipoise.doctor.probes import Wanted, examine

__all__ = ["Finding", "Status", "Wanted", "examine"]
