import asyncio

import msgspec
import pytest

from controller.migration import migrations
from dra.api.reservations.model import MalformedReservationError
from dra.engine.migration import arbitration, job_cache
from dra.engine.migration.limits import EvictionPace
from dra.engine.migration.plan import ReadPod, act
from dra.model.preemption import PodUnavailableBudget
from localplane.objects import encode
from tests.controller.migration.site import JOBS, PODS, REPLICA_SETS, RESERVATIONS, Site, refusal
from tests.dra.engine.migration.test_job_cache import job_object

BUDGETS = "/apis/policy/v1/namespaces/ns/poddisruptionbudgets"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"

NO_LIMITS = {
    "maxMigratingPerNode": None,
    "maxMigratingPerWorkload": "100%",
    "maxUnavailablePerWorkload": "100%",
    "objectLimiters": {"workload": {"duration": "0s"}},
}


@pytest.fixture
async def site():
    async with Site() as made:
        made.pods = await made.workload()
        yield made


async def until(condition, *, seconds=60.0):
    """Wait in virtual time until a condition holds that may have to ask the server."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the state of a server
            await asyncio.sleep(0.1)


async def has_phase(site, name, phase):
    async def reached():
        return (await site.status(name)).get("phase") == phase

    await until(reached)
    return await site.status(name)


async def has_reservation(site, job):
    async def exists():
        found = await site.ask("GET", RESERVATIONS)
        return any(each["metadata"]["name"] == job["metadata"]["uid"] for each in found["items"])

    await until(exists)
    return job["metadata"]["uid"]


async def finish_replacement(site, name, *, pod="web-new"):
    """Do what workload, scheduler and extender do once the pod is evicted."""
    made = await site.pod(pod, owner=site.pods[0]["metadata"]["ownerReferences"][0]["uid"])
    owner = {"namespace": "ns", "name": pod, "uid": made["metadata"]["uid"]}
    await site.ask(
        "PATCH", f"{RESERVATIONS}/{name}/status", {"status": {"phase": "Succeeded", "currentOwners": [owner]}}
    )


async def is_gone(site, pod):
    async def gone():
        found = await site.ask("GET", PODS)
        return all(
            each["metadata"]["name"] != pod or "deletionTimestamp" in each["metadata"] for each in found["items"]
        )

    await until(gone)
    if any(each["metadata"]["name"] == pod for each in (await site.ask("GET", PODS))["items"]):
        await site.ask("DELETE", f"{PODS}/{pod}", {"gracePeriodSeconds": 0})


async def migrate(site, name="m", pod="web-0", **spec):
    """Migrate a pod up to the end."""
    job = await site.job(name, pod, **spec)
    room = await has_reservation(site, job)
    await site.place(room)
    await is_gone(site, pod)
    await finish_replacement(site, room)
    return await has_phase(site, name, "Succeeded")


async def test_a_migration_from_the_job_to_the_ready_replacement(site):
    await site.run()
    status = await migrate(site)
    assert (status["status"], status["podRef"]["name"], status["nodeName"]) == ("Complete", "web-new", "n2")
    assert [reason for reason, _ in site.recorded.events] == [
        "ReservationCreated",
        "ReservationScheduled",
        "Evicting",
        "Descheduled",
        "EvictComplete",
        "PodBoundReservation",
        "BoundPodReady",
        "Complete",
    ]
    assert b'migrations_total{outcome="Succeeded",reason=""} 1.0' in site.metrics.render()
    assert b"dra_reserve_descheduler_migration_seconds_count 1.0" in site.metrics.render()
    await asyncio.sleep(5.0)
    asked = site.lines(f"{JOBS}/m")
    await asyncio.sleep(20.0)
    assert site.lines(f"{JOBS}/m") == asked, "an ended job asks for nothing"


async def test_a_job_whose_last_look_differs_from_the_watch_does_not_spin(site):
    await site.run()
    room = await has_reservation(site, await site.job("m", "web-0"))
    site.answers[f"GET {RESERVATIONS}/{room}"] = refusal(404, name=room)
    await site.place(room)
    await asyncio.sleep(10.0)
    looks = len(site.lines(f"GET {RESERVATIONS}/{room}"))
    assert 5 <= looks <= 15, "once a second"
    assert site.lines("eviction") == []
    del site.answers[f"GET {RESERVATIONS}/{room}"]
    await is_gone(site, "web-0")


async def test_an_eviction_that_fails_is_repeated_with_growing_pauses(site):
    """The last look reads the Reservation each time, which is nothing new."""
    site.answers["eviction"] = refusal(500)
    await site.run()
    await site.place(await has_reservation(site, await site.job("m", "web-0")))
    await asyncio.sleep(30.0)
    assert 5 <= len(site.lines("eviction")) <= 10


async def test_a_job_that_waits_for_its_turn_to_evict_holds_no_worker():
    async with Site(**NO_LIMITS) as site:
        site.migrations.evictor = site.evictor_of(EvictionPace(0.01, 1))
        site.pods = await site.workload(20)
        await site.run()
        jobs = [await site.job(f"m{n}", f"web-{n}", ttl="10m") for n in range(19)]
        for job in jobs:
            await site.place(await has_reservation(site, job))
        await asyncio.sleep(5.0)
        assert len(site.lines("eviction")) == 1
        await site.job("bad", "no-such-pod")
        assert (await has_phase(site, "bad", "Failed"))["reason"] == "MissingPod"


async def test_a_claim_that_was_not_read_is_read_again_before_anything_is_reserved(site):
    await site.pod("claims", owner="u", resourceClaims=[{"name": "gpu", "resourceClaimName": "train"}])
    site.answers[f"GET {CLAIMS}/train"] = refusal(500)
    await site.run()
    await site.job("m", "claims")
    await asyncio.sleep(5.0)
    assert len(site.lines(CLAIMS)) > 1
    assert site.lines(f"POST {RESERVATIONS}") == []
    site.answers.clear()
    status = await has_phase(site, "m", "Failed")
    assert "claim ns/train does not exist" in status["message"]


async def test_a_reservation_that_cannot_be_read_counts_as_absent_and_is_read_once(site, monkeypatch):
    def fail(_):
        raise MalformedReservationError("spec.owners: a number")

    monkeypatch.setattr(job_cache, "parse_reservation", fail)
    await site.reserve("room")
    await site.run()
    await site.job("m", "web-0", reservationOptions={"reservationRef": {"name": "room"}})
    assert (await has_phase(site, "m", "Failed"))["reason"] == "MissingReservation"
    assert len(site.lines(f"GET {RESERVATIONS}/room")) == 1


async def test_a_created_reservation_that_cannot_be_read_fails_the_job(site, monkeypatch):
    def fail(_):
        raise MalformedReservationError("spec.owners: a number")

    monkeypatch.setattr(job_cache, "parse_reservation", fail)
    await site.run()
    await site.job("m", "web-0")
    status = await has_phase(site, "m", "Failed")
    assert status["reason"] == "FailedCreateReservation"
    assert status["message"].endswith("exists already, and has fields that cannot be read")
    assert len(site.lines(f"POST {RESERVATIONS}")) == 2


@pytest.mark.parametrize(
    ("part", "status", "reason"),
    [
        pytest.param(f"POST {RESERVATIONS}", 403, "FailedCreateReservation", id="reservation-forbidden"),
        pytest.param(f"POST {RESERVATIONS}", 422, "FailedCreateReservation", id="reservation-invalid"),
        pytest.param(f"POST {RESERVATIONS}", 400, "FailedCreateReservation", id="reservation-not-decoded"),
    ],
)
async def test_a_refused_reservation_fails_the_job(site, part, status, reason):
    site.answers[part] = refusal(status, message="because")
    await site.run()
    await site.job("m", "web-0")
    found = await has_phase(site, "m", "Failed")
    assert (found["reason"], found["message"]) == (reason, "because")


async def test_a_reservation_that_may_not_be_deleted_is_left_to_the_garbage_collector(site, caplog):
    """The deletion was asked for every five seconds, for ever, and the job stayed."""
    name = await failed_with_a_reservation_that_may_not_be_deleted(site)
    await asyncio.sleep(1000.0)
    assert 2 <= len(site.lines(f"DELETE {RESERVATIONS}/{name}")) <= 11, "once a minute, until the job is deleted"
    assert f"reservation {name}: not deleted, trying again in a minute" in caplog.text
    assert len(site.lines(f"DELETE {JOBS}/m")) >= 1


async def test_a_reservation_is_deleted_once_the_right_is_granted(site):
    name = await failed_with_a_reservation_that_may_not_be_deleted(site)
    del site.answers[f"DELETE {RESERVATIONS}/{name}"]
    await asyncio.sleep(90.0)
    assert len(site.lines(f"DELETE {RESERVATIONS}/{name}")) == 2
    with pytest.raises(AssertionError, match="NotFound"):
        await site.ask("GET", f"{RESERVATIONS}/{name}")


async def failed_with_a_reservation_that_may_not_be_deleted(site):
    await site.run()
    job = await site.job("m", "web-0")
    name = await has_reservation(site, job)
    site.answers[f"DELETE {RESERVATIONS}/{name}"] = refusal(403, "Forbidden")
    await site.ask("DELETE", f"{PODS}/web-0", {"gracePeriodSeconds": 0})
    await has_phase(site, "m", "Failed")
    return name


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(f"PATCH {JOBS}/m", id="patch"),
        pytest.param(f"GET {PODS}/web-0", id="pod"),
        pytest.param(f"POST {RESERVATIONS}", id="reservation"),
        pytest.param(f"GET {REPLICA_SETS}", id="replicas"),
        pytest.param("eviction", id="eviction"),
    ],
)
@pytest.mark.parametrize("status", [429, 500])
async def test_a_failed_request_is_repeated_and_not_at_once(site, part, status):
    count = 0

    async def fail(_):
        nonlocal count
        count += 1
        return refusal(status) if count <= 3 else None

    site.answers[part] = fail
    await site.run()
    await migrate(site)
    assert count >= 4


async def test_a_write_whose_answer_is_lost_is_not_done_twice(site):
    async def lose(request):
        await site.server.handle(request)
        return refusal(504)

    for part in (f"POST {RESERVATIONS}", "eviction"):
        site.answers[part] = lose
    await site.run()
    await migrate(site)
    assert len((await site.ask("GET", RESERVATIONS))["items"]) == 1
    assert len(site.lines("eviction")) == 1


async def test_a_conflict_that_nobody_caused_is_retried_with_growing_pauses(site):
    site.answers[f"PATCH {JOBS}/m"] = refusal(409, "Conflict")
    await site.run()
    await site.job("m", "web-0", paused=True)
    await asyncio.sleep(20.0)
    assert 3 <= len(site.lines("PATCH")) <= 12
    site.answers.clear()
    await until(lambda: _has_reason(site, "m", "Paused"))


async def _has_reason(site, name, reason):
    return (await site.status(name)).get("reason") == reason


# Lost wakeups


async def test_a_job_that_waits_for_another_goes_on_when_that_ends(site):
    site.arbitration._args = site.args.model_copy(update={"max_migrating_globally": 1})
    await site.run()
    first, second = await site.job("m1", "web-0"), await site.job("m2", "web-1")
    room = await has_reservation(site, first)
    await until(lambda: _has_reason(site, "m2", "MaxMigratingGlobally"))
    await site.ask("DELETE", f"{JOBS}/m1")
    await has_reservation(site, second)
    assert room != second["metadata"]["uid"]


async def test_a_job_that_waits_for_a_budget_goes_on_when_the_budget_allows_more_or_is_gone(site):
    budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}}
    await site.ask("POST", BUDGETS, budget)
    await site.run()
    job = await site.job("m", "web-0")
    await asyncio.sleep(5.0)
    assert site.lines(f"POST {RESERVATIONS}") == []
    await site.ask("DELETE", f"{BUDGETS}/b")
    await has_reservation(site, job)


async def test_the_end_of_a_kind_of_budgets_makes_arbitration_due(site):
    await site.run()
    await asyncio.sleep(1.0)
    site.arbitration._wakeup.clear()
    site.cache.watch_job(job_object())
    budget = msgspec.convert({"metadata": {"name": "b", "namespace": "ns"}}, PodUnavailableBudget)
    site.cache.arbitration.observe_budget(budget)
    site.cache.arbitration.is_due = False
    site.informers.unavailable_budgets._forget([budget])
    assert site.arbitration._wakeup.is_set()


async def test_a_scaled_workload_is_noticed_though_no_watch_shows_the_scale():
    async with Site(maxMigratingPerWorkload="50%", maxUnavailablePerWorkload="50%") as site:
        site.pods = await site.workload(2)
        await site.run()
        first, second = await site.job("m1", "web-0"), await site.job("m2", "web-1")
        await has_reservation(site, first)
        await until(lambda: _has_reason(site, "m2", "MaxMigratingPerWorkload"))
        await asyncio.sleep(1.0)
        await site.ask("PATCH", f"{REPLICA_SETS}/web", {"spec": {"replicas": 4}})
        await has_reservation(site, second)


async def test_a_job_of_a_pod_that_no_watch_has_shown_reads_it_again(site):
    """A pod that was created and deleted between two lists of the watch."""
    await site.run()
    real = await site.ask("GET", f"{PODS}/web-0")
    real["metadata"] |= {"name": "ghost", "uid": "ghost"}

    async def ghost(request):
        answer = await site.server.handle(request)
        return msgspec.structs.replace(answer, status=200, body=encode(real))

    site.answers[f"GET {PODS}/ghost"] = ghost
    await site.job("m", "ghost", ttl="0s")
    await asyncio.sleep(5.0)
    site.answers.clear()
    await asyncio.sleep(60.0)
    assert (await site.status("m"))["reason"] == "MissingPod"
    assert len(site.lines(f"GET {PODS}/ghost")) == 2


# The end


async def test_an_ended_job_is_deleted_once(site):
    await site.run()
    await site.job("m", "no-such-pod", ttl="1m")
    await has_phase(site, "m", "Failed")
    await asyncio.sleep(700.0)
    assert site.lines("DELETE") == [f"DELETE {JOBS}/m"]
    assert list(site.cache.uids()) == []


async def test_a_job_that_is_gone_already_is_forgotten(site):
    site.answers[f"DELETE {JOBS}/m"] = refusal(404, name="m")
    await site.run()
    await site.job("m", "no-such-pod", ttl="1m")
    await asyncio.sleep(700.0)
    assert list(site.cache.uids()) == []
    assert len(site.lines("DELETE")) == 1


async def test_a_job_is_not_forgotten_when_a_server_does_not_serve_its_kind(site):
    site.answers[f"DELETE {JOBS}/m"] = refusal(404)
    await site.run()
    await site.job("m", "no-such-pod", ttl="1m")
    await asyncio.sleep(700.0)
    assert len(list(site.cache.uids())) == 1
    del site.answers[f"DELETE {JOBS}/m"]
    await asyncio.sleep(60.0)
    assert list(site.cache.uids()) == []


async def test_an_error_of_arbitration_stops_no_other_job(site, monkeypatch, caplog):
    def fail(*_, **__):
        raise ZeroDivisionError

    await site.run()
    monkeypatch.setattr(arbitration, "arbitrate", fail)
    await site.job("m", "web-0")
    await site.job("bad", "no-such-pod")
    assert (await has_phase(site, "bad", "Failed"))["reason"] == "MissingPod"
    monkeypatch.undo()
    await until(lambda: _has_phase(site, "m", "Running"))
    assert "arbitration: internal error" in caplog.text
    assert "dra_reserve_decision_failures_total 1.0" in site.metrics.render().decode()


async def test_an_internal_error_in_a_decision_is_counted_and_the_job_goes_on(site, monkeypatch):
    decide, failures = migrations.decide, iter([AssertionError("a bug")])

    def broken(*given, **named):
        for error in failures:
            raise error
        return decide(*given, **named)

    monkeypatch.setattr(migrations, "decide", broken)
    await site.run()
    await site.job("m", "web-0")
    await has_phase(site, "m", "Running")
    assert "dra_reserve_decision_failures_total 1.0" in site.metrics.render().decode()


async def _has_phase(site, name, phase):
    return (await site.status(name)).get("phase") == phase


async def test_without_waiting_jobs_pods_cost_no_arbitration(site, monkeypatch):
    await site.run()
    await asyncio.sleep(2.0)
    rounds = []
    judge = arbitration.arbitrate
    monkeypatch.setattr(arbitration, "arbitrate", lambda *a, **k: rounds.append(1) or judge(*a, **k))
    for n in range(5):
        await site.pod(f"stranger-{n}")
        await asyncio.sleep(1.0)
    assert rounds == []


async def test_a_decision_that_never_ends_is_paused(site, monkeypatch, caplog):
    await site.run()
    plan = migrations.decide
    again = lambda view, **k: plan(view, **k) if view.job.metadata.name != "m" else _read(view)  # noqa: E731
    monkeypatch.setattr(migrations, "decide", again)
    await site.job("m", "web-0")
    await asyncio.sleep(4.0)
    assert len(site.lines(f"GET {PODS}/web-0")) <= 2 * migrations.MAX_ROUNDS
    assert "decisions in a row" in caplog.text


def _read(view):
    return act(ReadPod(key=view.pod_key))
