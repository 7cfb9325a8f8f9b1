"""Arbitrary interleavings of events, requests and faults break none of the invariants."""

import os

from hypothesis import HealthCheck, settings

from tests.dra.engine.simulation.machine import ClaimMachine

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
"""``make test-deep``: many histories, and others each time."""

TestClaims = ClaimMachine.TestCase
TestClaims.settings = settings(
    max_examples=20_000 if DEEP else 300,
    stateful_step_count=50,
    deadline=None,
    derandomize=not DEEP,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
