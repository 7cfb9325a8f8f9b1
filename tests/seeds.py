"""First seeds of campaigns of random histories: another one in each run, unless the environment names the seed."""

import os
from random import Random, SystemRandom
from typing import Final

FIRST: Final = "DRA_SIMULATION_FROM"
"""Environment variable with the first seed of a campaign; replays what a run has printed."""

LARGEST: Final = 10**9
"""First seeds are drawn below: nine digits are easy to copy from a log."""


def first_seed(variable: str = FIRST) -> int:
    """Return the first seed of a campaign: the one that the environment names, or one that no run has used (nearly)."""
    given = os.environ.get(variable, "")
    if not given:
        # Processes of pytest-xdist must agree on the tests, and thus on the seeds in the names of tests.
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
        chance = SystemRandom() if run is None else Random(f"{run} {variable}")  # noqa: S311 - a seed
        return chance.randrange(LARGEST)
    if not given.isdecimal():
        raise SystemExit(f"error: {variable}={given!r} is no seed: give it a number from 0 on")
    return int(given)
