"""Arbitrary interleavings of events, requests and faults break none of the invariants."""

from hypothesis import HealthCheck, settings

from tests.dra.engine.simulation.machine import ClaimMachine

TestClaims = ClaimMachine.TestCase
TestClaims.settings = settings(
    max_examples=300, stateful_step_count=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
