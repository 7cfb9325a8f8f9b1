"""Where campaigns of random histories begin: with another seed in each run, unless the environment names the first."""

import os
from random import SystemRandom
from typing import Final

FIRST: Final = "DRA_SIMULATION_FROM"
"""Environment variable with the first seed of a campaign; replays what a run has printed."""

LARGEST: Final = 10**9
"""First seeds are drawn below: nine digits are easy to copy from a log."""


def first_seed(variable: str = FIRST) -> int:
    """Return the first seed of a campaign: the one that the environment names, or one that no run has used (nearly)."""
    given = os.environ.get(variable, "")
    if not given:
        return SystemRandom().randrange(LARGEST)
    if not given.isdecimal():
        raise SystemExit(f"error: {variable}={given!r} is no seed: give it a number from 0 on")
    return int(given)
