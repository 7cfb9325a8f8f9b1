import asyncio
import contextlib

import msgspec
import pytest

from dra.kube.event_correlator import SERIES_UPDATE_INTERVAL
from dra.kube.events import ATTEMPTS, FLUSH_TIMEOUT, QUEUE_MAX, EventRecorder
from dra.model.event_type import EventType
from tests.dra.kube.scripted import BROKEN, REFUSED, Handling, Scripted, body_of, client_of, ok, pod, refusal
from tests.dra.kube.test_event_correlator import fact

ACCEPTED = ok(pod("event"), status=201)
TERMINATING = refusal(403, "Forbidden", causes=[{"reason": "NamespaceTerminating"}])


@contextlib.asynccontextmanager
async def recording(transport, clock):
    recorder = EventRecorder(client_of(transport), instance="controller-1", clock=clock)
    task = asyncio.create_task(recorder.run())
    yield recorder
    if task.done():
        task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def always(answer):
    return Handling(lambda _request: answer)


async def test_an_event_says_who_what_and_about_which_object(clock):
    transport = always(ACCEPTED)
    async with recording(transport, clock) as recorder:
        recorder.record(fact("claim ml/train: released", severity=EventType.WARNING))
        await asyncio.sleep(1.0)
    (request,) = transport.requests
    assert (request.method, request.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/ml/events")
    body = body_of(request)
    assert body.pop("metadata")["name"].startswith("a.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "eventTime": "2026-11-20T12:00:00.000000Z",
        "reportingController": "reserve.dra/controller",
        "reportingInstance": "controller-1",
        "action": "Reserve",
        "reason": "Waiting",
        "type": "Warning",
        "note": "claim ml/train: released",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "ml", "name": "a", "uid": "u"},
    }
    assert (recorder.posted, recorder.discarded) == (1, 0)


async def test_names_differ_and_are_names(clock):
    transport = always(ACCEPTED)
    long = fact("x")
    async with recording(transport, clock) as recorder:
        recorder.record(long)
        recorder.record(fact("y"))
        await asyncio.sleep(1.0)
    names = [body_of(request)["metadata"]["name"] for request in transport.requests]
    assert len(set(names)) == 2


async def test_repetitions_are_counted_slowly(clock):
    transport = always(ACCEPTED)
    async with recording(transport, clock) as recorder:
        for _ in range(1000):
            recorder.record(fact())
            await asyncio.sleep(1.0)
    posts = [request for request in transport.requests if request.method == "POST"]
    patches = [request for request in transport.requests if request.method == "PATCH"]
    assert len(posts) == 1
    assert 1000 / SERIES_UPDATE_INTERVAL / 2 <= len(patches) <= 1000 / SERIES_UPDATE_INTERVAL
    name = body_of(posts[0])["metadata"]["name"]
    assert patches[0].path.endswith(f"/namespaces/ml/events/{name}")
    series = body_of(patches[0])["series"]
    assert series["count"] == pytest.approx(SERIES_UPDATE_INTERVAL, abs=35)
    assert series["lastObservedTime"].endswith("Z")


async def test_an_event_that_the_server_has_dropped_is_posted_again(clock):
    transport = Handling(lambda request: ACCEPTED if request.method == "POST" else refusal(404, "NotFound"))
    async with recording(transport, clock) as recorder:
        for _ in range(4):
            recorder.record(fact())
            await asyncio.sleep(SERIES_UPDATE_INTERVAL)
    methods = [request.method for request in transport.requests]
    assert methods[:3] == ["POST", "PATCH", "POST"]


async def test_an_event_waits_for_one_count_at_most(clock):
    """One namespace may have two thousand series, each with a count to be written."""

    async def answer(request):
        await asyncio.sleep(1.0 if request.method == "PATCH" else 0.0)
        return ACCEPTED

    transport = Handling(answer)
    async with recording(transport, clock) as recorder:
        for _ in range(2):
            for number in range(100):
                recorder.record(fact(f"{number}"))
            await asyncio.sleep(SERIES_UPDATE_INTERVAL + 1.0)
        assert any(request.method == "PATCH" for request in transport.requests)
        recorder.record(fact("of somebody else"))
        await asyncio.sleep(2.0)
        assert "of somebody else" in [body_of(request).get("note") for request in transport.requests]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([TERMINATING], id="namespace-going-away"),
        pytest.param([refusal(404, "NotFound")], id="namespace-gone"),
        pytest.param([refusal(403, "Forbidden")], id="no-right"),
        pytest.param([refusal(422, "Invalid")], id="invalid"),
        pytest.param([REFUSED] * ATTEMPTS, id="server-away-for-long"),
        pytest.param([refusal(500)] * ATTEMPTS, id="server-broken-for-long"),
    ],
)
async def test_what_cannot_be_written_is_counted_and_stops_nobody(clock, answers):
    transport = Scripted(*answers, ACCEPTED)
    async with recording(transport, clock) as recorder:
        recorder.record(fact("one"))
        recorder.record(fact("two"))
        await asyncio.sleep(30.0)
        assert (recorder.posted, recorder.discarded) == (1, 1)
        transport.answers.append(ACCEPTED)
        recorder.record(fact("one"))  # was never posted, so it is news
        await asyncio.sleep(1.0)
        assert recorder.posted == 2


async def test_an_event_that_cannot_be_made_is_told_in_the_log_and_stops_nobody(clock, caplog):
    transport = always(ACCEPTED)
    odd = object()  # nothing that JSON knows
    async with recording(transport, clock) as recorder:
        recorder.record(msgspec.structs.replace(fact("one"), action=odd))
        recorder.record(fact("two"))
        await asyncio.sleep(30.0)
        assert (recorder.posted, recorder.discarded) == (1, 1)
    [record] = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("ERROR", True)
    assert "event 'one' not created" in record.getMessage()


async def test_a_lost_answer_does_not_make_two_events(clock):
    transport = Scripted(BROKEN, refusal(409, "AlreadyExists"))
    async with recording(transport, clock) as recorder:
        recorder.record(fact())
        await asyncio.sleep(5.0)
        assert (recorder.posted, recorder.discarded) == (1, 0)
    names = {body_of(request)["metadata"]["name"] for request in transport.requests}
    assert len(names) == 1


async def test_a_full_queue_drops_the_newest(clock):
    recorder = EventRecorder(client_of(always(ACCEPTED)), instance="i", clock=clock)
    for number in range(QUEUE_MAX + 5):
        recorder.record(fact(str(number)))
    assert recorder.discarded == 5
    await recorder.close()
    assert recorder.posted == QUEUE_MAX


async def test_a_tenant_that_fills_the_queue_keeps_no_event_of_another_back(clock):
    """3,000 claims of one namespace, and the Event of another namespace's claim never came."""
    heard = []
    transport = always(ACCEPTED)
    recorder = EventRecorder(client_of(transport), instance="i", clock=clock, on_discard=heard.append)
    for number in range(3 * QUEUE_MAX):
        recorder.record(fact(str(number)))
    theirs = fact("the other one")
    elsewhere = msgspec.structs.replace(theirs.regarding, namespace="alice", uid="alice")
    recorder.record(msgspec.structs.replace(theirs, regarding=elsewhere))
    running = asyncio.create_task(recorder.run())
    await asyncio.sleep(1.0)
    assert [r.path for r in transport.requests].index("/apis/events.k8s.io/v1/namespaces/alice/events") <= 1
    assert sum(heard) == recorder.discarded == 2 * QUEUE_MAX + 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_closing_writes_what_is_left_and_the_counts(clock):
    transport = always(ACCEPTED)
    recorder = EventRecorder(client_of(transport), instance="i", clock=clock)
    for _ in range(3):
        recorder.record(fact())
    await recorder.close()
    assert [request.method for request in transport.requests] == ["POST", "PATCH"]
    assert body_of(transport.requests[1])["series"]["count"] == 3


async def test_an_event_cut_off_by_the_end_of_the_worker_is_written_by_close(clock):
    async def slow(_request):
        await asyncio.sleep(2.0)
        return ACCEPTED

    transport = Handling(slow)
    async with recording(transport, clock) as recorder:
        recorder.record(fact())
        await asyncio.sleep(1.0)
    await recorder.close()
    assert recorder.posted == 1
    names = [body_of(request)["metadata"]["name"] for request in transport.requests]
    assert len(names) == 2
    assert len(set(names)) == 1


async def test_closing_does_not_wait_for_ever(clock):
    async def stuck(_request):
        await asyncio.sleep(3600.0)

    recorder = EventRecorder(client_of(Handling(stuck)), instance="i", clock=clock)
    recorder.record(fact("one"))
    recorder.record(fact("two"))
    await recorder.close()
    assert clock.now() == pytest.approx(FLUSH_TIMEOUT)
    assert recorder.discarded == 2
