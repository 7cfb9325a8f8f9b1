"""Arbitrary interleavings of events, requests and faults break none of the invariants."""

import os

from hypothesis import HealthCheck, settings

from dra.engine.claims.policy import ALONGSIDE
from tests.dra.engine.simulation.machine import ClaimMachine

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
"""``make test-deep``: many histories, and others each time."""

SETTINGS = settings(
    max_examples=20_000 if DEEP else 300,
    stateful_step_count=50,
    deadline=None,
    derandomize=not DEEP,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


class AlongsideMachine(ClaimMachine):
    """The stock controller itself is not played: what it would do is the scenarios' matter."""

    policy = ALONGSIDE


TestReplace = ClaimMachine.TestCase
TestReplace.settings = SETTINGS
TestAlongside = AlongsideMachine.TestCase
TestAlongside.settings = settings(SETTINGS, max_examples=5_000 if DEEP else 100)
