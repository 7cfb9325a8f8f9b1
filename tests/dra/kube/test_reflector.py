import asyncio
import contextlib
import itertools
import logging

import pytest

from dra.engine.instants import WATCH_OUTAGE_UNNOTICED
from dra.kube import errors
from dra.kube.client import Selection
from dra.kube.object_sizes import memory_of
from dra.kube.reflector import WATCH_IDLE_TIMEOUT, WATCH_TIMEOUT_SECONDS, Reflector
from dra.kube.resources import PODS
from dra.kube.store import ServerRestored, ServerRestoredError, Synced
from dra.model.meta import ObjectMeta, PartialObjectMetadata, Struct
from dra.model.scheduling import SchedulerPod
from tests.dra.kube.scripted import (
    BROKEN,
    FOREVER,
    REFUSED,
    Scripted,
    bookmark,
    client_of,
    frame,
    page,
    pod,
    refusal,
)
from tests.dra.kube.test_store import short
from tests.dra.kube.virtual import seeded

EXPIRED = frame("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Watching:
    """A reflector at work, and what it has told."""

    def __init__(self, transport, clock, **options):
        self.batches = []
        self.transport = transport
        self.reflector = Reflector(
            client_of(transport),
            PODS,
            options.pop("model", PartialObjectMetadata),
            handler=self.batches.append,
            clock=clock,
            random=seeded(1),
            **options,
        )

    @property
    def told(self):
        return [short(change).replace("uid-", ":") for batch in self.batches for change in batch]

    @property
    def asked(self):
        """What the requests wanted: "list", or the resourceVersion a watch began at."""
        return [
            f"watch@{request.query['resourceVersion']}" if "watch" in request.query else "list"
            for request in self.transport.requests
        ]


@contextlib.asynccontextmanager
async def watching(transport, clock, *, seconds=1.0, **options):
    """Let a reflector work for some virtual seconds, then look at it; it must not have stopped by itself."""
    work = Watching(transport, clock, **options)
    task = asyncio.create_task(work.reflector.run())
    await asyncio.sleep(seconds)
    if task.done():
        task.result()
    yield work
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_lists_then_watches_from_there(clock):
    events = [frame("ADDED", pod("b", version=11)), frame("MODIFIED", pod("a", version=12))]
    transport = Scripted(page(pod("a"), version=10), streams=[[*events, FOREVER]])
    async with watching(transport, clock) as work:
        assert work.asked == ["list", "watch@10"]
        assert work.told == ["+a:a@1", "synced@10", "+b:b@11", "+a:a@12"]
        assert work.reflector.synced.is_set()
        assert work.reflector.resource_version == "12"
        assert set(work.reflector.objects) == {("ml", "a"), ("ml", "b")}


async def test_changes_come_in_one_batch_for_each_block(clock):
    block = frame("ADDED", pod("a", version=11)) + frame("ADDED", pod("b", version=12)) + bookmark(13)
    transport = Scripted(page(), streams=[[block, frame("DELETED", pod("a", version=14)), FOREVER]])
    async with watching(transport, clock) as work:
        assert [len(batch) for batch in work.batches] == [1, 2, 1]
        assert work.told == ["synced@10", "+a:a@11", "+b:b@12", "-a:a@14"]


async def test_a_bookmark_tells_nothing_but_moves_on(clock):
    transport = Scripted(page(), streams=[[bookmark(50)], [FOREVER]])
    async with watching(transport, clock) as work:
        assert work.asked == ["list", "watch@10", "watch@50"]
        assert work.told == ["synced@10"]


async def test_a_bookmark_of_an_old_server_is_one_too(clock):
    old = frame("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "50", "creationTimestamp": None}})
    async with watching(Scripted(page(), streams=[[old, FOREVER]]), clock) as work:
        assert work.asked == ["list", "watch@10"]
        assert work.reflector.resource_version == "50"


async def test_each_page_is_told_as_it_comes(clock):
    transport = Scripted(page(pod("a"), more="t"), page(pod("b"), version=20), streams=[[FOREVER]])
    async with watching(transport, clock) as work:
        assert [[short(change) for change in batch] for batch in work.batches] == [
            ["+auid-a@1"],
            ["+buid-b@1", "synced@20"],
        ]
        assert work.asked == ["list", "list", "watch@20"]


async def test_a_watch_that_ends_goes_on_where_it_ended(clock):
    streams = [[frame("ADDED", pod("a", version=11))], [], [frame("ADDED", pod("b", version=12)), FOREVER]]
    async with watching(Scripted(page(), streams=streams), clock, seconds=2.0) as work:
        assert work.asked == ["list", "watch@10", "watch@11", "watch@11"]
        assert work.told == ["synced@10", "+a:a@11", "+b:b@12"]
        assert work.reflector.failure is None


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param([[EXPIRED], [FOREVER]], id="error-event"),
        pytest.param([refusal(410, "Expired"), [FOREVER]], id="http-status"),
        pytest.param([[frame("ERROR", {"kind": "Status", "code": 500})], [FOREVER]], id="any-other-error-event"),
        pytest.param([[b"<html>\n"], [FOREVER]], id="garbage"),
        pytest.param(
            [refusal(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}]), [FOREVER]],
            id="server-restored-from-a-backup",
        ),
    ],
)
async def test_when_the_server_has_forgotten_all_is_listed_again_and_the_difference_told(clock, streams):
    lists = [page(pod("a"), pod("b"), pod("c")), page(pod("a"), pod("b", uid="new", version=20), version=30)]
    async with watching(Scripted(*lists, streams=streams), clock) as work:
        assert work.asked == ["list", "watch@10", "list", "watch@30"]
        assert work.told[3:] == ["synced@10", "-b:b@1", "+bnew@20", "-c:c@1", "synced@30 again"]


async def test_what_came_before_an_error_in_the_same_block_has_happened(clock):
    block = frame("ADDED", pod("a", version=11)) + EXPIRED
    transport = Scripted(page(), page(pod("a", version=11), version=30), streams=[[block], [FOREVER]])
    async with watching(transport, clock) as work:
        assert work.told == ["synced@10", "+a:a@11", "synced@30 again"]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(refusal(500), id="server-error"),
        pytest.param(refusal(403, "Forbidden"), id="right-taken-away"),
        pytest.param(refusal(404, "NotFound"), id="kind-removed"),
        pytest.param(refusal(504, "Timeout"), id="timeout"),
    ],
)
async def test_other_failures_change_nothing_and_are_tried_again(clock, failure):
    transport = Scripted(page(pod("a")), streams=[failure, failure, [bookmark(12), FOREVER]])
    async with watching(transport, clock, seconds=0.001) as work:
        assert isinstance(work.reflector.failure, errors.ApiError)
        assert set(work.reflector.objects) == {("ml", "a")}
        await asyncio.sleep(2.0)
        assert work.asked == ["list", "watch@10", "watch@10", "watch@10"]
        assert work.reflector.failure is None
        assert work.told == ["+a:a@1", "synced@10"]


async def test_each_kind_of_failure_is_warned_of_once_until_the_store_is_up_to_date(clock, caplog):
    """A right that is taken away while the server is restarted must not stay unsaid."""
    failures = [refusal(500), refusal(500), *[refusal(403, "Forbidden", "no right")] * 2]
    transport = Scripted(page(), streams=[*failures, [bookmark(12)], refusal(500), [FOREVER]])
    async with watching(transport, clock, seconds=60.0) as work:
        assert work.reflector.failure is None
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert ["no right" in each for each in warnings] == [False, True, False]


@pytest.mark.parametrize(
    "failure", [pytest.param([BROKEN], id="broken-on-the-way"), pytest.param(REFUSED, id="refused")]
)
async def test_after_a_broken_connection_the_server_is_asked_how_far_it_is(clock, failure):
    """What is restored is restarted, and a watch from a version that it has not reached would only be silent."""
    transport = Scripted(page(pod("a")), page(version=12), page(version=12), streams=[failure, failure, [FOREVER]])
    async with watching(transport, clock, seconds=2.0) as work:
        assert work.asked == ["list", "watch@10", "list", "watch@10", "list", "watch@10"]
        assert [request.query for request in transport.requests[2::2]] == [{"limit": "1"}] * 2
        assert work.told == ["+a:a@1", "synced@10"]
        assert work.reflector.failure is None


async def test_a_restored_server_is_told_of_before_anything_that_it_shows(clock):
    lists = [page(pod("a")), page(version=5), page(pod("a"), pod("c"), version=5)]
    transport = Scripted(*lists, streams=[[frame("ADDED", pod("b", version=11)), BROKEN], [FOREVER]])
    async with watching(transport, clock, seconds=2.0) as work:
        assert work.asked == ["list", "watch@10", "list", "list", "watch@5"]
        assert work.told[3:] == ["pods: 5 after 11", "+c:c@1", "-b:b@11", "synced@5 again"]


async def test_a_handler_may_end_it_all_then(clock):
    def handler(changes):
        for change in changes:
            if isinstance(change, ServerRestored):
                raise ServerRestoredError(change)

    transport = Scripted(page(), page(version=5), page(version=5), streams=[[bookmark(11), BROKEN]])
    reflector = Reflector(
        client_of(transport), PODS, PartialObjectMetadata, handler=handler, clock=clock, random=seeded(1)
    )
    with pytest.raises(
        ServerRestoredError, match=r"^pods: the API server shows version 5 after it had shown 11; was it "
    ):
        await reflector.run()


async def test_a_list_that_fails_is_tried_again(clock):
    transport = Scripted(refusal(403, "Forbidden", "no right"), page(), streams=[[FOREVER]])
    async with watching(transport, clock, seconds=0.001) as work:
        assert str(work.reflector.failure) == "pods: no right"
        assert not work.reflector.synced.is_set()
        assert work.reflector.lag() is None
        await asyncio.sleep(1.0)
        assert work.reflector.synced.is_set()
        assert work.reflector.failure is None


async def test_attempts_become_rarer(clock):
    starts = []

    def refused(_request):
        starts.append(clock.now())
        return refusal(500)

    async with watching(Scripted(page(), streams=[refused] * 200), clock, seconds=600.0):
        gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
        assert gaps[0] < 1.0
        assert all(15.0 <= gap <= 30.0 for gap in gaps[8:])


async def test_after_news_the_next_attempt_is_early_again(clock):
    refused = [refusal(500)] * 10
    streams = [*refused, [bookmark(11)], [FOREVER]]
    transport = Scripted(page(), streams=streams)
    async with watching(transport, clock, seconds=150.0):
        gaps = [later - earlier for earlier, later in itertools.pairwise(transport.times)]
        assert gaps[-2] > 10.0
        assert gaps[-1] < 1.0


async def test_the_server_may_ask_for_more_patience(clock):
    busy = refusal(429, "TooManyRequests", headers={"retry-after": "20"})
    async with watching(Scripted(page(), streams=[busy, [FOREVER]]), clock, seconds=19.0) as work:
        assert len(work.asked) == 2
        await asyncio.sleep(3.0)
        assert len(work.asked) == 3


async def test_a_list_and_watch_that_always_fail_after_one_another_are_no_busy_loop(clock):
    streams = [refusal(410, "Expired")] * 100
    async with watching(Scripted(*[page()] * 100, streams=streams), clock, seconds=60.0) as work:
        assert work.asked.count("list") < 15


async def test_after_a_silence_the_watch_is_opened_anew(clock):
    transport = Scripted(page(), page(version=12), streams=[[bookmark(12), FOREVER], [FOREVER]])
    async with watching(transport, clock, seconds=WATCH_IDLE_TIMEOUT - 1) as work:
        assert work.asked == ["list", "watch@10"]
        assert work.reflector.lag() == pytest.approx(WATCH_IDLE_TIMEOUT - 1)
        await asyncio.sleep(2.0)
        assert work.asked == ["list", "watch@10", "list", "watch@12"]
        assert transport.requests[2].query == {"limit": "1"}
        assert work.told == ["synced@10"]
        assert work.reflector.lag() < 1.5


@pytest.mark.parametrize("answer", [REFUSED, BROKEN, refusal(500)], ids=str)
async def test_after_a_silence_the_server_may_be_away(clock, answer):
    transport = Scripted(page(), *[answer] * 4, page(), streams=[[FOREVER], [FOREVER]])
    async with watching(transport, clock, seconds=WATCH_IDLE_TIMEOUT + 10) as work:
        assert work.asked[-1] == "watch@10"
        assert work.reflector.failure is None


async def test_a_silence_may_mean_that_the_server_knows_less_than_we(clock):
    """It was restored from a backup: it accepts our watch and is silent until it has come as far again."""
    answers = [page(pod("a")), page(version=5), page(version=5)]
    streams = [[frame("ADDED", pod("b", version=11)), FOREVER], [FOREVER]]
    async with watching(Scripted(*answers, streams=streams), clock, seconds=WATCH_IDLE_TIMEOUT + 1) as work:
        assert work.asked == ["list", "watch@10", "list", "list", "watch@5"]
        assert work.told[-4:] == ["pods: 5 after 11", "-a:a@1", "-b:b@11", "synced@5 again"]


async def test_bookmarks_break_the_silence(clock):
    stream = [each for version in range(20, 30) for each in (60.0, bookmark(version))]
    async with watching(Scripted(page(), streams=[[*stream, FOREVER]]), clock, seconds=610.0) as work:
        assert work.asked == ["list", "watch@10"]
        assert work.reflector.lag() == pytest.approx(10.0)


async def test_lengths_of_watches_differ(clock):
    async with watching(Scripted(page(), streams=[[]] * 4 + [[FOREVER]]), clock, seconds=10.0) as work:
        lengths = {int(request.query["timeoutSeconds"]) for request in work.transport.requests[1:]}
    assert len(lengths) > 1
    assert all(WATCH_TIMEOUT_SECONDS[0] <= length <= WATCH_TIMEOUT_SECONDS[1] for length in lengths)


async def test_what_is_not_kept_takes_no_memory(clock):
    transport = Scripted(
        page(pod("a"), pod("b", labels={})),
        streams=[[frame("MODIFIED", pod("b", version=11)), frame("ADDED", pod("c", version=12)), FOREVER]],
    )
    keep = lambda each: each.metadata.labels is not None  # noqa: E731 - short
    async with watching(transport, clock, keep=keep) as work:
        assert work.told == ["+b:b@1", "synced@10", "?b:b@11"]
        assert not work.reflector.objects


async def test_a_selection_makes_deletions_uncertain(clock):
    transport = Scripted(page(pod("a")), streams=[[frame("DELETED", pod("a", version=11)), FOREVER]])
    async with watching(transport, clock, selection=Selection(labels="a=b")) as work:
        assert work.told[-1] == "?a:a@11"


class Strict(Struct, frozen=True):
    metadata: ObjectMeta
    size: int = 0


async def test_an_object_that_does_not_fit_stops_nobody(clock, caplog):
    events = [
        frame("MODIFIED", {**pod("a", version=11), "size": "big"}),
        frame("ADDED", pod("b", version=12)),
        frame("DELETED", {**pod("a", version=13), "size": "big"}),
    ]
    transport = Scripted(page(pod("a"), {**pod("z"), "size": "big"}), streams=[[b"".join(events), FOREVER]])
    with caplog.at_level(logging.WARNING):
        async with watching(transport, clock, model=Strict) as work:
            assert work.told == ["+a:a@1", "synced@10", "+b:b@12", "-a:a@1"]
            assert work.reflector.unreadable == 3
            assert work.reflector.resource_version == "13"
    assert caplog.messages[0].startswith("Pod ml/z: cannot be decoded")
    assert "Expected `int`" in caplog.messages[1]


async def test_a_flood_does_not_keep_others_from_running(clock):
    blocks = [frame("MODIFIED", pod("a", version=version)) for version in range(11, 111)]
    work = Watching(Scripted(page(), streams=[[*blocks, FOREVER]]), clock)
    task = asyncio.create_task(work.reflector.run())
    seen = set()
    for _ in range(1000):
        seen.add(work.reflector.resource_version)
        await asyncio.sleep(0)
    assert len(seen) > 100  # we were running between any two blocks
    task.cancel()


async def test_a_cancelled_reflector_leaves_nothing_behind(clock):
    async with watching(Scripted(page(), streams=[[FOREVER]]), clock):
        pass
    await asyncio.sleep(10 * WATCH_IDLE_TIMEOUT)  # no timer of it fires in somebody else's task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_sync_tells_whether_there_is_a_gap_before_it(clock):
    transport = Scripted(page(), page(version=30), streams=[[EXPIRED], [FOREVER]])
    async with watching(transport, clock) as work:
        syncs = [change for batch in work.batches for change in batch if isinstance(change, Synced)]
        assert [(sync.resource_version, sync.first) for sync in syncs] == [("10", True), ("30", False)]


def test_the_engine_knows_for_how_long_a_watch_may_be_dead() -> None:
    assert WATCH_OUTAGE_UNNOTICED == WATCH_IDLE_TIMEOUT


def fat(name, **more):
    return pod(name, labels={f"{i:x}": "" for i in range(100_000)}, **more)


def large(name, *, labels=2_000, **more):
    return pod(name, labels={f"{i:x}": "" for i in range(labels)}, **more)


async def test_an_object_that_is_too_large_is_named_once_and_its_last_state_stays(clock, caplog):
    events = [frame("MODIFIED", fat("a", version=version)) for version in (11, 12)]
    transport = Scripted(page(pod("a"), fat("b")), streams=[[*events, FOREVER]])
    async with watching(transport, clock) as work:
        assert work.told == ["+a:a@1", "synced@10"]
        assert work.reflector.resource_version == "12"
        account = work.reflector._client.large_objects
        assert account.refused() == {"pods": 2}
    named = [record.getMessage() for record in caplog.records if "too large" in record.getMessage()]
    assert [text.partition(": too large")[0] for text in named] == ["Pod ml/b", "Pod ml/a"]
    assert account.refused() == {}  # the informer has ended


async def test_an_object_that_was_too_large_is_reported_as_deleted(clock):
    transport = Scripted(page(pod("a")), streams=[[frame("DELETED", fat("a", version=11)), FOREVER]])
    async with watching(transport, clock) as work:
        assert work.told == ["+a:a@1", "synced@10", "-a:a@1"]
        assert work.reflector._client.large_objects.refused() == {"pods": 0}


async def test_an_object_that_becomes_small_again_is_kept(clock):
    transport = Scripted(page(fat("a")), streams=[[frame("MODIFIED", pod("a", version=11)), FOREVER]])
    async with watching(transport, clock) as work:
        assert work.told == ["synced@10", "+a:a@11"]
        assert work.reflector._client.large_objects.refused() == {"pods": 0}


async def test_large_objects_of_a_namespace_are_kept_up_to_a_limit_and_those_of_others_are_not_affected(clock):
    many = [large(f"evil-{i}", namespace="evil", labels=3_000) for i in range(60)]
    events = [frame("ADDED", large("b", version=12))]
    transport = Scripted(page(*many, large("a")), streams=[[*events, FOREVER]])
    async with watching(transport, clock) as work:
        account = work.reflector._client.large_objects
        kept = [key for key in work.reflector.objects if key[0] == "evil"]
        assert 15 < len(kept) < 60
        assert {("ml", "a"), ("ml", "b")} <= work.reflector.objects.keys()
        assert account.refused() == {"pods": 60 - len(kept)}
        assert account.kept_bytes()["pods"] < 9 << 20


async def test_objects_that_are_not_kept_take_no_room(clock):
    many = [large(f"{i}", labels=3_000) for i in range(60)]
    transport = Scripted(page(*many), streams=[[FOREVER]])
    async with watching(transport, clock, keep=lambda _: False) as work:
        assert work.reflector._client.large_objects.refused() == {"pods": 0}


async def test_other_tasks_run_between_large_objects(clock):
    block = b"".join(frame("ADDED", large(f"{i}", version=11 + i)) for i in range(5)) + frame(
        "ADDED", pod("z", version=20)
    )
    transport = Scripted(page(), streams=[[block, FOREVER]])
    async with watching(transport, clock) as work:
        assert [len(batch) for batch in work.batches] == [1, 1, 1, 1, 1, 1, 1]
        assert len(work.told) == 7


async def test_a_frame_that_is_too_long_makes_the_reflector_list(clock):
    error = errors.ResponseTooLarge("/api/v1/pods", 8 << 20)
    transport = Scripted(page(pod("a")), page(pod("a", version=11)), streams=[[error], [FOREVER]])
    async with watching(transport, clock, seconds=5.0) as work:
        assert work.asked == ["list", "watch@10", "list", "watch@10"]
        assert work.told == ["+a:a@1", "synced@10", "+a:a@11", "synced@10 again"]


USUAL_MANAGED_FIELDS = [{"fieldsV1": {f"f:{i}": {} for i in range(300)}}]


def usual(name):
    """A pod as service meshes and training operators make them: 20 KiB, mostly of environment and managed fields."""
    container = {"env": [{"name": f"VARIABLE_{i}", "value": "v" * 40} for i in range(20)], "image": "x" * 60}
    limits = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}
    metadata = {**pod(name)["metadata"], "managedFields": USUAL_MANAGED_FIELDS}
    return {"metadata": metadata, "spec": {"containers": [{**container, **limits, "name": f"c{i}"} for i in range(12)]}}


async def test_a_namespace_may_have_thousands_of_usual_pods(clock):
    many = [usual(f"p{i}") for i in range(1_000)]
    event = frame("MODIFIED", usual("p0") | {"metadata": {**usual("p0")["metadata"], "resourceVersion": "11"}})
    transport = Scripted(page(*many), streams=[[event, FOREVER]])
    async with watching(transport, clock, model=SchedulerPod) as work:
        assert len(work.reflector.objects) == 1_000
        assert work.reflector.objects["ml", "p0"].metadata.resource_version == "11"
        assert work.reflector._client.large_objects.refused() == {"pods": 0}


async def test_states_that_stay_of_objects_that_grew_too_large_take_bounded_memory(clock):
    """A user lets pod after pod grow to the limit, and then beyond it."""
    events = []
    for number in range(40):
        version = 11 + 2 * number
        events += [
            frame("ADDED", large(f"{number}", labels=3_000, version=version)),
            frame("MODIFIED", large(f"{number}", labels=10_000, version=version + 1)),
        ]
    transport = Scripted(page(), streams=[[*events, FOREVER]])
    async with watching(transport, clock, seconds=60.0) as work:
        states = [memory_of(each, limit=1 << 30) for each in work.reflector.objects.values()]
        assert 10 < len(states) < 40
        assert sum(states) < 9 << 20
