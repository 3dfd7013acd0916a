"""Choose how Hypothesis looks for examples: the same ones in every run, unless somebody goes looking for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

# A change is judged by the change, not by luck. `HYPOTHESIS_PROFILE=explore make test` draws new examples.
settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
