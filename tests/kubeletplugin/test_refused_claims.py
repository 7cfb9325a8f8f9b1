"""Which refusals last, and since when."""

from datetime import timedelta

import pytest

from dra.engine.devices.ledger import DeviceID
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from kubeletplugin.contract import DevicesInUseError, PrepareError
from kubeletplugin.refused_claims import FORGOTTEN_AFTER, RefusedClaims
from tests.dra.kube.virtual import NOON
from tests.kubeletplugin.fakes import DRIVER, POOL, FakeDriver, FakeNode, claim, request, result

IN_USE = DevicesInUseError("no cores", reason=PrepareRefusalReason.CPUS_IN_USE)
UNSUITABLE = PrepareError("offline", reason=PrepareRefusalReason.CPUS_UNSUITABLE)
ASKED = request("a", "cpus", result("watched", admin=True))


class StoppedClock:
    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at

    def wall(self):
        return NOON + timedelta(seconds=self.at)


@pytest.fixture
def clock():
    return StoppedClock()


@pytest.fixture
def refused(clock):
    return RefusedClaims(clock)


def test_a_refusal_lasts_from_the_first_attempt(refused, clock):
    for clock.at in (10.0, 14.0, 16.0):
        refused.record(ASKED, IN_USE)
    (found,) = refused.lasting(5.0)
    assert (found.claim, found.reason, found.text) == (ASKED.claim, PrepareRefusalReason.CPUS_IN_USE, "no cores")
    assert (found.since, found.first, found.last) == (NOON + timedelta(seconds=10), 10.0, 16.0)
    assert found.devices == (DeviceID(driver=DRIVER, pool=POOL, device="cpus"),)


def test_a_handover_is_no_refusal_that_lasts(refused, clock):
    refused.record(ASKED, IN_USE)
    clock.at = 5.0
    assert refused.lasting(5.0) == ()


def test_another_reason_begins_anew(refused, clock):
    refused.record(ASKED, IN_USE)
    clock.at = 20.0
    refused.record(ASKED, UNSUITABLE)
    assert refused.lasting(5.0) == ()


def test_an_error_that_each_node_would_repeat_is_none(refused, clock):
    refused.record(ASKED, IN_USE)
    clock.at = 20.0
    refused.record(ASKED, PrepareError("malformed"))
    assert refused.lasting(5.0) == ()


def test_without_further_attempts_it_is_forgotten(refused, clock):
    refused.record(ASKED, IN_USE)
    clock.at = FORGOTTEN_AFTER - 1.0
    assert len(refused.lasting(5.0)) == 1
    clock.at = FORGOTTEN_AFTER
    assert refused.lasting(5.0) == ()


@pytest.mark.parametrize("end", ["prepare", "unprepare"])
async def test_the_preparer_remembers_until_the_claim_is_prepared_or_its_pod_is_gone(tmp_path, clock, end):
    node, driver = FakeNode(tmp_path), FakeDriver()
    plugin = node.instance(driver=driver, clock=clock)
    node.claims.requests[ASKED.claim.uid] = ASKED
    driver.refuses = {ASKED.claim.uid: UNSUITABLE}
    await plugin.prepare([ASKED.claim])
    clock.at = 1.0
    assert [each.claim for each in plugin.refused_claims] == [ASKED.claim]

    driver.refuses = {}
    await getattr(plugin, end)([claim("a")])
    assert plugin.refused_claims == ()
