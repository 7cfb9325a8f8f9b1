"""The base of every loop: what it does with dirty keys, conflicts and errors, as a standby and as a leader."""

import asyncio
import contextlib
import dataclasses
import logging

import pytest

from controller.reconciler import AGAIN, Reconciler, Settings
from dra.engine.dirty_keys import Cache, DirtyKeys
from dra.engine.instants import NEVER
from dra.kube.errors import Conflict, ServerError, Status
from dra.kube.shared_informers import SharedInformers
from dra.kube.store import ServerRestored, ServerRestoredError
from dra.kube.tasks import background_task
from tests.controller.cluster import Cluster


class NumberCache(Cache):
    def __init__(self):
        self.dirty = DirtyKeys()
        self.known = ["a", "b"]
        self.transitions = {"a is placed"}
        self.settled_at = []

    def settle(self, *, now):
        self.settled_at.append(now)

    def mark_all_dirty(self):
        self.dirty.update(self.known)

    def discard_dirty(self):
        super().discard_dirty()
        self.transitions.clear()


class PassingError(Exception):
    """An error whose cause is known."""


class Numbers(Reconciler[str]):
    """A loop that logs when it reconciles what, and does what `answers` say, the last of them again and again."""

    settings = Settings(
        name="number", workers=2, retry=(1.0, 8.0), retry_after={PassingError: (0.1, 0.4)}, batch_delay=0.0, conflicts=2
    )

    def __init__(self, runtime, informers, *, needs=()):
        super().__init__(runtime, informers, NumberCache(), needs=needs)
        self.answers = [NEVER]
        self.log = []
        self.marks_itself = False

    async def begin(self):
        self.log.append("begins")

    async def refresh(self, key):
        self.log.append(f"reads {key}")

    async def reconcile(self, key, now):
        self.log.append((round(now.instant, 2), key))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if self.marks_itself and answer != NEVER:
            self.cache.dirty.add(key)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def times(self):
        return [line[0] for line in self.log if isinstance(line, tuple)]


@pytest.fixture
def number_of(runtime_of, clock):
    def make(**attributes):
        runtime = runtime_of(Cluster())
        loop = Numbers(runtime, SharedInformers(runtime.client, clock=clock), **attributes)
        loop.cache.known = ["a"]
        return loop

    return make


@contextlib.asynccontextmanager
async def leading(loop):
    async with background_task(loop.run(), name="loop"):
        yield loop


def conflict():
    return Conflict("a", Status(code=409, reason="Conflict"))


def outage():
    return ServerError("a", Status(code=500))


async def test_a_standby_drops_dirty_keys_and_the_transitions_that_it_saw(runtime_of, clock):
    runtime = runtime_of(Cluster())
    informers = SharedInformers(runtime.client, clock=clock)
    loop = Numbers(runtime, informers)
    loop.cache.dirty.add("a")
    informers.notify()
    assert (len(loop.cache.dirty), loop.cache.transitions) == (0, set())
    async with leading(loop):
        await asyncio.sleep(1.0)
        assert loop.log == ["begins", (0.0, "a"), (0.0, "b")], "a leader reconciles all keys"
        loop.cache.dirty.add("b")
        informers.notify()
        await asyncio.sleep(1.0)
        assert loop.log[-1] == (1.0, "b")


async def test_nothing_is_decided_before_everything_needed_is_listed(number_of):
    class Informer:
        def __init__(self, seconds):
            self.seconds = seconds

        async def wait_for_sync(self):
            await asyncio.sleep(self.seconds)

    async with leading(number_of(needs=(Informer(2.0), Informer(3.0)))) as loop:
        await asyncio.sleep(4.9)
        assert loop.log == []
        await asyncio.sleep(0.2)
        assert loop.log == ["begins", (5.0, "a")]


async def test_a_key_is_reconciled_at_once_as_long_as_its_writes_make_it_possible(number_of):
    async with leading(number_of()) as loop:
        loop.answers = [AGAIN, AGAIN, 9.0, NEVER]
        await asyncio.sleep(20.0)
        assert loop.times == [0.0, 0.0, 0.0, 9.0]


async def test_after_the_last_round_other_keys_come_first(number_of):
    loop = number_of()
    loop.cache.known = ["a", "b"]
    loop.answers = [*[AGAIN] * loop.settings.rounds, NEVER]
    loop.settings = Settings(name="number", workers=1, retry=(1.0, 8.0), batch_delay=0.0)
    loop.marks_itself = True  # as a write does that has an effect
    async with leading(loop):
        await asyncio.sleep(1.0)
        assert [key for _, key in loop.log[1:]] == ["a", "a", "a", "a", "b", "a"]


async def test_a_key_whose_writes_have_no_effect_pauses_after_the_last_round(number_of):
    async with leading(number_of()) as loop:
        loop.answers = [AGAIN]
        await asyncio.sleep(15.0)
        assert loop.times == [0.0] * 4 + [8.0] * 4


async def test_a_loop_that_always_comes_to_an_end_pauses_after_the_last_round(number_of, caplog):
    loop = number_of()
    loop.answers = [AGAIN]
    loop.settings = Settings(name="number", workers=1, retry=(1.0, 8.0), batch_delay=0.0, rounds=2, pause=5.0)
    async with leading(loop):
        await asyncio.sleep(9.0)
        assert loop.times == [0.0, 0.0, 5.0, 5.0]
        assert "number a: 2 decisions in a row, a pause follows" in caplog.text


async def test_after_a_conflict_the_object_is_read_and_decided_about_at_once_a_few_times(number_of, caplog):
    caplog.set_level(logging.INFO)
    async with leading(number_of()) as loop:
        loop.answers = [conflict(), conflict(), conflict(), NEVER]
        await asyncio.sleep(10.0)
        reads = "reads a"
        assert loop.log[1:] == [(0.0, "a"), reads, (0.0, "a"), reads, (0.0, "a"), reads, (1.0, "a")]
        assert "not reconciled" not in caplog.text, "conflicts are usual"


@pytest.mark.parametrize("error", [conflict(), outage(), RuntimeError("a bug")], ids=["conflict", "outage", "bug"])
async def test_a_key_that_fails_is_tried_later_and_later_whatever_it_marks(number_of, error):
    async with leading(number_of()) as loop:
        loop.marks_itself, loop.answers = True, [error]
        await asyncio.sleep(30.0)
        assert sorted(set(loop.times)) == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0]


async def test_an_event_on_a_key_that_has_failed_does_not_wait(number_of):
    async with leading(number_of()) as loop:
        loop.answers = [outage(), outage(), outage(), NEVER]
        await asyncio.sleep(4.0)
        loop.cache.dirty.add("a")
        loop.enqueue_dirty()
        await asyncio.sleep(1.0)
        assert loop.times == [0.0, 1.0, 3.0, 4.0]


async def test_a_success_ends_the_pauses(number_of):
    async with leading(number_of()) as loop:
        loop.answers = [outage(), outage(), 5.0, outage(), NEVER]
        await asyncio.sleep(20.0)
        assert loop.times == [0.0, 1.0, 3.0, 5.0, 6.0]


async def test_an_error_whose_cause_is_known_has_pauses_of_its_own_and_is_told_when_it_does_not_pass(number_of, caplog):
    caplog.set_level(logging.INFO)
    async with leading(number_of()) as loop:
        loop.answers = [PassingError("busy")]
        await asyncio.sleep(0.25)
        assert (loop.times, caplog.text) == ([0.0, 0.1], "")
        await asyncio.sleep(1.0)
        assert "number a: not reconciled, retrying in 0.40 s: busy" in caplog.text
        assert "internal error" not in caplog.text


async def test_an_outage_is_told_at_once_whatever_pauses_it_has(number_of, caplog):
    loop = number_of()
    loop.settings = Settings(name="number", workers=1, retry=(1.0, 8.0), retry_after={ServerError: (0.1, 0.4)})
    loop.answers = [outage(), NEVER]
    async with leading(loop):
        await asyncio.sleep(1.0)
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert record.getMessage().startswith("number a: not reconciled, retrying in 0.10 s: ")


class Following(Numbers):
    """Has key "b" reconciled after "a"."""

    def reconciled(self, key):
        self.log.append(f"{key} was reconciled")
        if key == "a":
            self.cache.dirty.add("b")


@pytest.mark.parametrize("answer", [NEVER, outage(), conflict()], ids=["success", "outage", "conflict"])
async def test_what_follows_a_reconciliation_does_so_whatever_its_outcome(runtime_of, clock, answer):
    runtime = runtime_of(Cluster())
    loop = Following(runtime, SharedInformers(runtime.client, clock=clock))
    loop.settings = Settings(name="number", workers=1, retry=(1.0, 8.0), batch_delay=0.0)
    loop.cache.known, loop.answers = ["a"], [AGAIN, answer, NEVER]
    async with leading(loop):
        await asyncio.sleep(0.5)
        steps = [step for step in loop.log[1:] if step != "reads a"]
        assert steps == [(0.0, "a"), (0.0, "a"), "a was reconciled", (0.0, "b"), "b was reconciled"]


async def test_an_error_with_one_pause_only_slows_no_other_error(number_of):
    async with leading(number_of()) as loop:
        loop.settings = dataclasses.replace(loop.settings, retry_after={PassingError: (0.1, 0.1)})
        loop.answers = [*[PassingError("busy")] * 5, outage(), NEVER]
        await asyncio.sleep(5.0)
        assert [round(time - 0.5, 2) for time in loop.times[-2:]] == [0.0, 2.0]


async def test_an_internal_error_is_logged_and_counted_and_stops_no_other_key(number_of, metrics, caplog):
    loop = number_of()
    loop.cache.known = ["a", "b"]
    loop.answers = [RuntimeError("a bug"), NEVER]
    async with leading(loop):
        await asyncio.sleep(0.5)
        assert loop.log[1:] == [(0.0, "a"), (0.0, "b")]
        assert metrics.failures._value.get() == 1
        assert "number a: internal error, retrying in 1.00 s" in caplog.text


async def test_a_restored_server_ends_the_loop(number_of):
    loop = number_of()
    loop.answers = [ServerRestoredError(ServerRestored(subject="pods", version="1", known="2"))]
    with pytest.raises(ExceptionGroup) as caught:
        await loop.run()
    assert caught.group_contains(ServerRestoredError)


async def test_a_key_that_can_wait_waits_and_its_earliest_time_counts(number_of):
    async with leading(number_of()) as loop:
        await asyncio.sleep(1.0)
        loop.cache.dirty.add("a", due=5.0)
        loop.cache.dirty.add("a", due=3.0)
        loop.enqueue_dirty()
        await asyncio.sleep(10.0)
        assert loop.times == [0.0, 3.0]


async def test_a_batch_is_settled_before_its_keys_are_taken(number_of):
    async with leading(number_of()) as loop:
        await asyncio.sleep(2.0)
        loop.cache.settled_at.clear()
        loop.enqueue_dirty()
        assert loop.cache.settled_at == [2.0]
