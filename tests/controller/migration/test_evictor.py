import asyncio

import msgspec
import pytest

from controller.migration.evictor import RECHECK_SECONDS
from controller.reconciler import AGAIN
from dra.api.migration.model import EvictionPolicy
from dra.api.migration.well_known import ANNOTATION_SOFT_EVICTION
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.live_reads import LiveReads
from dra.engine.migration.plan import EvictPod
from dra.kube.errors import ApiError
from tests.controller.migration.site import PODS, RESERVATIONS, Site, refusal

KEY = ("ns", "web-0")


@pytest.fixture
async def site():
    async with Site() as made:
        made.pods = await made.workload(1)
        yield made


def eviction(site, *, policy=EvictionPolicy.EVICTION, reservation="", options=None, uid=""):
    return EvictPod(
        key=KEY,
        uid=uid or site.pods[0]["metadata"]["uid"],
        eviction_policy=policy,
        delete_options=options or {},
        reservation=reservation,
        reason="drain",
    )


def count(site, policy, outcome):
    return f'evictions_total{{outcome="{outcome}",policy="{policy}"}} 1.0'.encode() in site.metrics.render()


async def evict(site, action, live=None):
    live = live or LiveReads()
    return await site.evictor.evict(action, live), live


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        pytest.param(EvictionPolicy.EVICTION, f"POST {PODS}/web-0/eviction", id="eviction"),
        pytest.param(EvictionPolicy.DELETE, f"DELETE {PODS}/web-0", id="delete"),
    ],
)
async def test_a_pod_is_looked_at_then_ended_with_its_uid_and_the_options_of_the_job(site, policy, written):
    uid = site.pods[0]["metadata"]["uid"]
    options = {"gracePeriodSeconds": 7, "preconditions": {"uid": uid}, "propagationPolicy": "Background"}
    again, live = await evict(site, eviction(site, policy=policy, options=options))
    assert (again, live.evicted, live.evict_error) == (AGAIN, uid, "")
    assert [line for line, _ in site.requests] == [f"GET {PODS}/web-0", written]
    body = site.requests[-1][1]
    sent = body.get("deleteOptions", body)
    assert (sent["gracePeriodSeconds"], sent["preconditions"]["uid"]) == (7, uid)
    assert sent["propagationPolicy"] == "Background"
    assert site.recorded.events == [("Descheduled", 'Pod evicted from node "n1" by the reason "drain"')]
    assert count(site, policy.value, "granted")


async def test_a_soft_eviction_is_written_once_however_late_the_watch_is(site):
    action = eviction(site, policy=EvictionPolicy.SOFT_EVICTION, options={"gracePeriodSeconds": 7})
    for _ in range(3):
        again, live = await evict(site, action)
        assert (again, live.evicted) == (site.clock.now() + RECHECK_SECONDS, "")
    assert len(site.lines("PATCH")) == 1
    metadata = (await site.ask("GET", f"{PODS}/web-0"))["metadata"]
    asked = msgspec.json.decode(metadata["annotations"][ANNOTATION_SOFT_EVICTION])
    assert asked["deleteOptions"] == {"gracePeriodSeconds": 7}
    assert (asked["initiator"], asked["reason"]) == ("dra-reserve-descheduler", "drain")
    assert len(site.recorded.events) == 1


async def test_a_pod_that_is_gone_counts_as_evicted(site):
    action = eviction(site)
    await site.ask("DELETE", f"{PODS}/web-0", {"gracePeriodSeconds": 0})
    again, live = await evict(site, action)
    assert (again, live.pod_gone, live.evicted) == (AGAIN, True, action.uid)
    assert site.lines("POST") == []


async def test_another_pod_of_the_name_is_never_evicted(site):
    again, live = await evict(site, eviction(site, uid="earlier"))
    assert (again, live.pod_gone, live.evicted) == (AGAIN, False, "earlier")
    assert site.lines("POST") == []


async def test_a_pod_that_is_terminating_is_not_evicted_again(site):
    await site.ask("DELETE", f"{PODS}/web-0", {"gracePeriodSeconds": 60})
    again, live = await evict(site, eviction(site))
    assert (again, live.evicted) == (AGAIN, site.pods[0]["metadata"]["uid"])
    assert site.lines("POST") == []


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_ends_meanwhile_is_looked_at_again_after_a_pause(site, status):
    site.answers["eviction"] = refusal(status)
    again, live = await evict(site, eviction(site))
    assert again == site.clock.now() + RECHECK_SECONDS
    assert (live.evicted, live.evict_error) == ("", "")


@pytest.mark.parametrize("status", [400, 403, 422, 429])
async def test_a_refusal_is_recorded_for_the_next_decision(site, status):
    site.answers["eviction"] = refusal(status, message="the budget is used up")
    again, live = await evict(site, eviction(site))
    assert (again, live.evict_error, live.evicted) == (AGAIN, "the budget is used up", "")
    assert live.evict_failed_at == site.clock.wall().timestamp()
    assert count(site, "Eviction", "refused")
    assert site.recorded.events == []


@pytest.mark.parametrize("status", [401, 500, 504])
async def test_an_unknown_outcome_is_raised(site, status):
    site.answers["eviction"] = refusal(status)
    with pytest.raises(ApiError):
        await evict(site, eviction(site))
    assert count(site, "Eviction", "unknown")


async def _held(site):
    await site.reserve("room")
    await site.place("room")


async def test_a_pod_is_evicted_whose_reservation_is_free(site):
    await _held(site)
    again, live = await evict(site, eviction(site, reservation="room"))
    assert (again, live.evicted) == (AGAIN, site.pods[0]["metadata"]["uid"])


async def _take(site):
    await site.place("room", owners=[{"namespace": "ns", "name": "other", "uid": "u"}])


async def _expire(site):
    await site.ask("PATCH", f"{RESERVATIONS}/room/status", {"status": {"phase": "Failed"}})


async def _delete(site):
    await site.ask("DELETE", f"{RESERVATIONS}/room")


async def _delete_later(site):
    await site.ask("PATCH", f"{RESERVATIONS}/room", {"metadata": {"finalizers": ["example.com/wait"]}})
    await site.ask("DELETE", f"{RESERVATIONS}/room")


async def _same_node(site):
    await site.place("room", node="n1")


async def _other_labels(site):
    await site.ask("PATCH", f"{PODS}/web-0", {"metadata": {"labels": {"app": "other"}}})


@pytest.mark.parametrize("change", [_take, _expire, _delete, _delete_later, _same_node, _other_labels])
async def test_a_reservation_that_the_last_look_shows_as_useless_saves_the_pod(site, change):
    await _held(site)
    await change(site)
    again, live = await evict(site, eviction(site, reservation="room"))
    assert again == site.clock.now() + RECHECK_SECONDS
    assert live.evicted == ""
    assert site.lines("POST") == []
    labels = (await site.ask("GET", f"{PODS}/web-0"))["metadata"]["labels"]
    assert live.pod_template["metadata"]["labels"] == labels, "the next decision reads what the last look showed"


async def test_the_next_decision_reads_the_reservation_of_the_last_look(site):
    await _held(site)
    await evict(site, eviction(site, reservation="room"))
    assert site.cache.has_reservation("room")


async def test_evictions_come_one_after_the_other_and_no_worker_waits(site):
    evictor = site.evictor_of(EvictionPace(0.5, 1))
    site.answers["eviction"] = refusal(429)
    first, second, third = LiveReads(), LiveReads(), LiveReads()
    assert await evictor.evict(eviction(site), first) == AGAIN
    assert [await evictor.evict(eviction(site), each) for each in (second, third)] == [2.0, 4.0]
    assert await evictor.evict(eviction(site), second) == 2.0, "a turn is kept until it comes"
    assert len(site.lines("eviction")) == 1
    await asyncio.sleep(2.0)
    assert await evictor.evict(eviction(site), second) == AGAIN
    assert len(site.lines("eviction")) == 2
