"""How many examples property tests look at: quick and always the same ones, or with HYPOTHESIS_PROFILE=deep many."""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=60, derandomize=True, deadline=None, database=None)
settings.register_profile("deep", max_examples=20_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
