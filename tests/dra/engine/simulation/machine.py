"""Hypothesis' hands on the cluster."""

import sys

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dra.engine.claims.policy import REPLACE, Policy
from tests.dra.engine.simulation import calm, histories, limits, strategies
from tests.dra.engine.simulation.cluster import ONE_DEVICE, TWO_DEVICES, Cluster
from tests.dra.engine.simulation.histories import History
from tests.dra.engine.simulation.moves import AllWork, CreateClaim, CreatePods, JobIs, Move
from tests.dra.engine.simulation.objects import Device, PodShape
from tests.dra.engine.simulation.violation import Violation


class ClaimMachine(RuleBasedStateMachine):
    """Pods, claims, nodes and workloads come and go, in any order, under any faults; then it must come to rest."""

    policy: Policy = REPLACE

    def __init__(self) -> None:
        super().__init__()
        self.history = History(moves=(), policy=self.policy)
        self.cluster = Cluster(devices=ONE_DEVICE, policy=self.policy)

    @initialize(
        devices=st.sampled_from((ONE_DEVICE, TWO_DEVICES)),
        lists=st.sampled_from((limits.USUAL, (7, 2), (6, 2), (5, 1))),
        claim=st.builds(
            CreateClaim,
            name=st.just("a"),
            reserved_for=st.sampled_from(("", "train", "train", "train")),
            known=st.booleans(),
            pre_list=st.booleans(),
        ),
        pods=st.lists(strategies.shapes, min_size=1, max_size=6),
        rounds=st.integers(0, 3),
    )
    def begin(
        self, devices: tuple[Device, ...], lists: tuple[int, int], claim: Move, pods: list[PodShape], rounds: int
    ) -> None:
        """Begin in the middle of a life, with pods that are at work already, and perhaps with a short list."""
        self.history = History(moves=(), devices=devices, lists=lists, policy=self.policy)
        self.cluster = Cluster(devices=devices, policy=self.policy)
        limits.set_list_size(*lists)
        moves = (JobIs(name="train", how="created"), claim, *(CreatePods(shape=shape) for shape in pods))
        for move in (*moves, *[AllWork()] * rounds):
            self._play(move)

    @rule(move=strategies.everybody)
    def everybody(self, move: Move) -> None:
        self._play(move)

    @rule(move=strategies.users)
    def users(self, move: Move) -> None:
        self._play(move)

    @rule(move=strategies.nodes)
    def nodes(self, move: Move) -> None:
        self._play(move)

    @rule(move=strategies.scheduler)
    def scheduler(self, move: Move) -> None:
        self._play(move)

    @rule(move=strategies.controller)
    def controller(self, move: Move) -> None:
        self._play(move)

    @precondition(lambda self: self.cluster.scheduler.cycles)
    @rule(move=strategies.races)
    def races(self, move: Move) -> None:
        self._play(move)

    def teardown(self) -> None:
        """Unless the run has failed already, or was cut short: it must come to rest, whatever has happened."""
        try:
            if sys.exc_info()[0] is None:
                calm.run(self.cluster)
        except Violation as violation:
            raise self._explained(violation) from violation
        finally:
            limits.set_list_size(*limits.USUAL)

    def _play(self, move: Move) -> None:
        self.history = msgspec.structs.replace(self.history, moves=(*self.history.moves, move))
        try:
            move.play(self.cluster)
        except Violation as violation:
            raise self._explained(violation) from violation

    def _explained(self, violation: Violation) -> Violation:
        shortest = histories.reduced(self.history)
        limits.set_list_size(*self.history.lists)
        return Violation(f"{violation}\n{shortest}")
