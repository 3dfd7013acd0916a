"""Choose how Hypothesis looks for examples: the same ones in every run, unless somebody goes looking for new ones."""

from __future__ import annotations

import os

from hypothesis import settings

# A change is judged by the change, not by luck. `HYPOTHESIS_PROFILE=explore make test` draws new examples. No example
# has a deadline of its own: on a busy machine it would be the machine that is judged. Each test has a time-out.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
