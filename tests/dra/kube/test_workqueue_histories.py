"""Random histories of a work queue, beside a model that looks at all keys each time."""

import asyncio
import math
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from dra.kube.workqueue import CPU_SHARE, WorkQueue
from tests.dra.kube.virtual import LoopClock, VirtualLoop

KEYS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4)
QUARTERS = st.integers(min_value=-4, max_value=12).map(lambda quarters: quarters / 4)
"""Seconds that floats represent exactly."""


class QueueHistories(RuleBasedStateMachine):
    def __init__(self, loop):
        super().__init__()
        self.loop = loop
        self.clock = LoopClock()
        self.queue = WorkQueue(self.clock, batch_delay=0.25)
        self.delays, self.entered = {}, {}
        self.due, self.running = {}, {}
        self.events = set()
        self.last_by_event = None
        self.getters = set()

    def enter(self, key, when, *, by_event):
        if by_event:
            self.events.add(key)
        times = self.running if key in self.running else self.due
        if when < times.get(key, math.inf):
            times[key] = when
            self.entered[key] = self.loop.time()

    def returned(self, key, *, since):
        """Check a key at the moment at which the queue returns it."""
        assert key not in self.running
        when = self.due.pop(key)
        by_event = key in self.events
        self.events.discard(key)
        now = self.loop.time()
        assert when <= now, "too early"
        assert now == max(when, since, self.entered[key]), "too late"
        kin = [due for other, due in self.due.items() if (other in self.events) == by_event]
        assert when <= min(kin, default=math.inf), "an earlier one of its class waits"
        others = [due for other, due in self.due.items() if (other in self.events) != by_event]
        assert min(others, default=math.inf) > now or by_event != self.last_by_event, "not its turn"
        self.last_by_event = by_event
        self.running[key] = math.inf

    async def get(self):
        since = self.loop.time()
        self.returned(await self.queue.get(), since=since)

    def act(self, *steps):
        """Take steps while the loop runs, then let whoever is woken run."""

        async def run():
            for step in steps:
                step()
            for _ in range(4):
                await asyncio.sleep(0)
            if self.getters:
                ended, self.getters = await asyncio.wait(self.getters, timeout=0)
                for getter in ended:
                    if not getter.cancelled():
                        getter.result()

        self.loop.run_until_complete(run())

    @rule(keys=KEYS)
    def add(self, keys):
        for key in keys:
            self.enter(key, self.loop.time() + self.delays.get(key, 0.25), by_event=True)
        self.act(*(partial(self.queue.add, key) for key in keys))

    @rule(keys=KEYS, after=QUARTERS | st.just(math.inf))
    def add_at(self, keys, after):
        when = self.loop.time() + after
        for key in keys:
            self.enter(key, when, by_event=False)
        self.act(*(partial(self.queue.add_at, key, when) for key in keys))

    @rule(count=st.integers(min_value=1, max_value=4))
    def begin_to_get(self, count):
        if len(self.getters) + count <= 5:
            self.act(*count * [lambda: self.getters.add(self.loop.create_task(self.get()))])

    @precondition(lambda self: self.getters)
    @rule(data=st.data())
    def cancel_a_get(self, data):
        getter = data.draw(st.sampled_from(sorted(self.getters, key=id)))
        self.getters.discard(getter)
        self.act(getter.cancel)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data):
        self.give_back(data.draw(st.sampled_from(sorted(self.running))))

    def give_back(self, key):
        when = self.running.pop(key)
        if when != math.inf:
            self.due[key] = when
            self.entered[key] = self.loop.time()
        self.act(lambda: self.queue.done(key))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), delay=st.sampled_from([0.0, 0.5, 1.0]))
    def cost(self, data, delay):
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.delays[key] = max(delay, 0.25)
        self.queue.set_cost(key, delay * CPU_SHARE)

    @rule(quarters=st.integers(min_value=1, max_value=12))
    def pass_time(self, quarters):
        self.loop.run_until_complete(asyncio.sleep(quarters / 4))
        self.act()

    @invariant()
    def nobody_waits_while_a_key_is_due(self):
        assert not self.getters or min(self.due.values(), default=math.inf) > self.loop.time()

    @invariant()
    def the_same_keys_are_queued_by_events(self):
        assert len(self.queue) == len(self.due)
        assert self.queue._added == self.events

    def teardown(self):
        try:
            for key in sorted(self.running):
                self.give_back(key)
            for _ in sorted(self.due):
                self.begin_to_get(1)
                self.pass_time(16)
            assert not self.due
        finally:
            for getter in self.getters:
                getter.cancel()
            self.act(lambda: None)


def test_each_key_comes_when_it_is_due_and_in_its_turn():
    loop = VirtualLoop()  # one for all histories: a machine may be made and never torn down
    try:
        run_state_machine_as_test(
            lambda: QueueHistories(loop), settings=settings(max_examples=120, stateful_step_count=40)
        )
    finally:
        loop.close()
