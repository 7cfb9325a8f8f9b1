"""Hypothesis' hands on the cluster: which moves there are, and how they are chosen.

Small moves (one event delivered, one request made) reach every interleaving; big ones (the controller works, the
scheduler works) get to the interesting places within fifty steps.
"""

import sys
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dra.engine import window
from dra.engine.claims.policy import REPLACE, Policy
from dra.model.claims import ResourceClaim
from dra.model.meta import Uid
from dra.model.nodes import Node
from dra.model.pods import Pod
from tests.dra.engine.simulation import calm, objects
from tests.dra.engine.simulation.cluster import ONE_DEVICE, TWO_DEVICES, Cluster
from tests.dra.engine.simulation.objects import Device, Job, PodShape
from tests.dra.engine.simulation.requests import Fate
from tests.dra.engine.simulation.server import Actor

JOBS: Final = ("train", "eval")
CLAIMS: Final = ("a", "b")
PODS: Final = tuple(f"p{number}" for number in range(8))
"""Few names, so that they come back with other uids."""

WAITS: Final = (0.3, 1.0, 2.5, 10.0, 11.0, 31.0, 59.9, 60.0, 120.0, 1300.0)
"""Around the engine's own times."""

_which = st.integers(0, 7)
_fates = st.sampled_from((Fate.DONE, Fate.DONE, Fate.DONE, Fate.REFUSED, Fate.LOST))
_shapes = st.builds(
    PodShape,
    claims=st.sampled_from((("a",), ("a",), ("a",), ("a",), ("b",), ("a", "b"))),
    gated=st.booleans(),
    gated_by_another=st.sampled_from((False, False, False, True)),
    opted_in=st.booleans(),
    has_volumes=st.sampled_from((False, False, False, True)),
    tracked=st.booleans(),
    priority=st.integers(0, 1),
)


class ClaimMachine(RuleBasedStateMachine):
    """Pods, claims, nodes and workloads come and go, in any order, under any faults."""

    policy: Policy = REPLACE

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(devices=ONE_DEVICE, policy=self.policy)
        self._capacity = window.CAPACITY

    @initialize(
        devices=st.sampled_from((ONE_DEVICE, TWO_DEVICES)),
        capacity=st.sampled_from((240, 5, 4)),
        reserved=st.sampled_from(("", "train", "train", "train")),
        known=st.booleans(),
        pre_list=st.booleans(),
        pods=st.lists(_shapes, min_size=1, max_size=6),
        rounds=st.integers(0, 3),
    )
    def begin(  # one parameter for each way in which clusters differ from the start
        self,
        devices: tuple[Device, ...],
        capacity: int,
        reserved: str,
        *,
        known: bool,
        pre_list: bool,
        pods: list[PodShape],
        rounds: int,
    ) -> None:
        """Begin in the middle of a life: with pods that are at work already."""
        window.CAPACITY = capacity  # type: ignore[misc]
        self.cluster = Cluster(devices=devices, policy=self.policy)
        self.create_job("train")
        self.create_claim("a", reserved, known=known, pre_list=pre_list)
        for shape in pods:
            self.create_pods(1, shape)
        for _ in range(rounds):
            self.all_work()

    def teardown(self) -> None:
        """Whatever has happened, things must come to rest; unless the run has failed already, or was cut short."""
        try:
            if sys.exc_info()[0] is None:
                calm.run(self.cluster)
        finally:
            window.CAPACITY = self._capacity  # type: ignore[misc]

    # Everybody at work:

    @rule()
    def all_work(self) -> None:
        self.cluster.controller_works()
        self.cluster.scheduler_works()
        self.cluster.kubelets_work()

    @rule(fate=_fates)
    def controller_works(self, fate: Fate) -> None:
        self.cluster.controller_works(fate)

    @rule(pick=st.integers(0, 2))
    def scheduler_works(self, pick: int) -> None:
        self.cluster.scheduler_works(pick)

    @rule()
    def kubelets_work(self) -> None:
        self.cluster.kubelets_work()

    @rule(seconds=st.sampled_from(WAITS))
    def time_passes(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    # Users:

    @rule(
        name=st.sampled_from(CLAIMS), reserved=st.sampled_from(("", *JOBS)), known=st.booleans(), pre_list=st.booleans()
    )
    def create_claim(self, name: str, reserved: str, *, known: bool, pre_list: bool) -> None:
        server = self.cluster.server
        if server.find(ResourceClaim, objects.key(name)) is not None:
            return
        job = server.find(Job, objects.key(reserved)) if reserved and known else None
        uid = job.metadata.uid if job is not None else Uid("")
        server.create(objects.claim(name, reserved_for=reserved, uid=uid, pre_list=pre_list), by=Actor.USER)

    @rule(name=st.sampled_from(CLAIMS))
    def delete_claim(self, name: str) -> None:
        self.cluster.server.delete(ResourceClaim, objects.key(name), by=Actor.USER)

    @rule(count=st.integers(1, 4), shape=_shapes)
    def create_pods(self, count: int, shape: PodShape) -> None:
        server = self.cluster.server
        free = [name for name in PODS if server.find(Pod, objects.key(name)) is None]
        for name in free[:count]:
            server.create(objects.pod(name, shape), by=Actor.USER)

    @precondition(lambda self: self.pods)
    @rule(which=_which)
    def delete_pod(self, which: int) -> None:
        self.cluster.server.delete(Pod, self._pod(which).metadata.key, by=Actor.USER)

    @precondition(lambda self: self.pods)
    @rule(which=_which)
    def kill_pod(self, which: int) -> None:
        self.cluster.kill(self._pod(which))

    @precondition(lambda self: self.pods)
    @rule(which=_which)
    def let_pod_go(self, which: int) -> None:
        self.cluster.let_go(self._pod(which))

    # Owners of workloads:

    @rule(name=st.sampled_from(JOBS))
    def create_job(self, name: str) -> None:
        if self.cluster.server.find(Job, objects.key(name)) is None:
            self.cluster.server.create(objects.job(name), by=Actor.OWNER)

    @rule(name=st.sampled_from(JOBS))
    def finish_job(self, name: str) -> None:
        job = self.cluster.server.find(Job, objects.key(name))
        if job is not None:
            self.cluster.finish_job(job)

    @rule(name=st.sampled_from(JOBS), again=st.booleans())
    def delete_job(self, name: str, *, again: bool) -> None:
        self.cluster.server.delete(Job, objects.key(name), by=Actor.OWNER)
        if again:
            self.create_job(name)

    @rule(name=st.sampled_from(CLAIMS))
    def release(self, name: str) -> None:
        claim = self.cluster.server.find(ResourceClaim, objects.key(name))
        for entry in claim.entries if claim is not None else ():
            if entry.api_group == "batch" and claim is not None:
                self.cluster.own_release(claim, entry)

    @rule(name=st.sampled_from(CLAIMS))
    def add_foreign_entry(self, name: str) -> None:
        claim = self.cluster.server.find(ResourceClaim, objects.key(name))
        if claim is not None:
            self.cluster.add_foreign_entry(claim)

    # Nodes and kubelets:

    @rule(which=_which, cordoned=st.booleans())
    def cordon(self, which: int, *, cordoned: bool) -> None:
        self.cluster.cordon(self._node(which), cordoned=cordoned)

    @rule(which=_which, ready=st.booleans())
    def set_ready(self, which: int, *, ready: bool) -> None:
        self.cluster.kubelets.set_ready(self._node(which), ready=ready)

    @rule(which=_which)
    def boot(self, which: int) -> None:
        self.cluster.advance(5.0)  # no node boots within the second that timestamps have
        self.cluster.kubelets.boot(self._node(which))

    @precondition(lambda self: self.cluster.kubelets.sandboxes)
    @rule(which=_which)
    def sync_pod(self, which: int) -> None:
        mine = self.cluster.kubelets.mine()
        if mine:
            self.cluster.kubelets.sync(mine[which % len(mine)])

    @precondition(lambda self: self.cluster.kubelets.sandboxes)
    @rule(which=_which)
    def lose_sandbox(self, which: int) -> None:
        self.cluster.kubelets.lose_sandbox(self._pod(which))

    @precondition(lambda self: self.cluster.kubelets.sandboxes)
    @rule(which=_which)
    def end_pod(self, which: int) -> None:
        self.cluster.kubelets.end(self._pod(which))

    # The scheduler, request by request:

    @precondition(lambda self: self.pods)
    @rule(which=_which, lag=st.integers(0, 3), pick=st.integers(0, 2))
    def schedule(self, which: int, lag: int, pick: int) -> None:
        pod = self._pod(which)
        if self.cluster.scheduler.can_try(pod):
            self.cluster.scheduler.schedule(pod, lag=lag, pick=pick)

    @precondition(lambda self: self.cluster.scheduler.cycles)
    @rule(which=_which, fate=_fates)
    def step_cycle(self, which: int, fate: Fate) -> None:
        cycles = list(self.cluster.scheduler.cycles.values())
        self.cluster.scheduler.step(cycles[which % len(cycles)], fate)

    @precondition(lambda self: self.cluster.scheduler.cycles)
    @rule(which=_which, fate=st.sampled_from((Fate.DONE, Fate.DONE, Fate.REFUSED)))
    def finish_cycle(self, which: int, fate: Fate) -> None:
        cycles = list(self.cluster.scheduler.cycles.values())
        self.cluster.scheduler.finish(cycles[which % len(cycles)], fate)

    @precondition(lambda self: self.cluster.scheduler.cycles)
    @rule()
    def wait_to_the_brink(self) -> None:
        """Until just before the first binding cycle runs out of time."""
        first = min(cycle.deadline for cycle in self.cluster.scheduler.cycles.values())
        self.cluster.advance(max(first - self.cluster.clock.now - 0.01, 0.0))

    @rule()
    def restart_scheduler(self) -> None:
        self.cluster.scheduler.restart()

    # Our controller, event by event and request by request:

    @rule(which=st.integers(0, 3), count=st.integers(1, 3))
    def deliver(self, which: int, count: int) -> None:
        self.cluster.controller.replica.deliver(which, count)

    @rule(which=st.integers(0, 3))
    def relist(self, which: int) -> None:
        self.cluster.controller.replica.relist(which)

    @rule(name=st.sampled_from(CLAIMS))
    def decide(self, name: str) -> None:
        self.cluster.controller.replica.begin(objects.key(name))

    @precondition(lambda self: self.cluster.controller.replica.turns)
    @rule(which=_which, fate=_fates)
    def step_turn(self, which: int, fate: Fate) -> None:
        turns = list(self.cluster.controller.replica.turns)
        self.cluster.controller.replica.step(turns[which % len(turns)], fate)

    @rule()
    def restart_controller(self) -> None:
        self.cluster.controller.restart()

    @precondition(lambda self: self.cluster.controller.late)
    @rule(which=_which)
    def late_request_arrives(self, which: int) -> None:
        late = self.cluster.controller.late
        self.cluster.controller.arrive(which % len(late))

    # What the moves are about:

    @property
    def pods(self) -> list[Pod]:
        """All pods, in the order of their creation."""
        return self.cluster.server.list(Pod)

    def _pod(self, which: int) -> Pod:
        return self.pods[which % len(self.pods)]

    def _node(self, which: int) -> Node:
        nodes = self.cluster.server.list(Node)
        return nodes[which % len(nodes)]
