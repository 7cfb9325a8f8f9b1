"""Where campaigns of random histories begin: with another seed in each run, unless the environment names the first."""

import os
from random import SystemRandom
from typing import Final

FIRST: Final = "DRA_SIMULATION_FROM"
"""Environment variable with the first seed of a campaign; replays what a run has printed."""

LARGEST: Final = 10**9
"""First seeds are drawn below: nine digits are easy to copy from a log."""


def first_seed() -> int:
    """Return the first seed of a campaign: the one in `FIRST`, or a number that no run before has used (nearly)."""
    given = os.environ.get(FIRST, "")
    if not given:
        return SystemRandom().randrange(LARGEST)
    if not given.isdecimal():
        raise SystemExit(f"error: {FIRST}={given!r} is no seed: give it a number from 0 on")
    return int(given)
