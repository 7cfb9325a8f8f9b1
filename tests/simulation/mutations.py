"""Rules, broken one at a time: each of these must be found, or the simulation proves nothing.

Some are the engine's (tests/dra/engine/simulation/mutations.py breaks the same before its own, smaller model), some are
of the shell around it, which only the whole system can show.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from controller.claim_writer import ClaimWriter
from dra.engine.claims import consumers, patches, vanished_pods
from dra.engine.claims.view import ClaimView
from dra.engine.instants import NEVER
from dra.kube.client import Client
from dra.model import nodes
from dra.requests.deallocation_check import DeallocationReader
from dra.requests.leadership import Leadership
from tests.dra.engine.simulation import mutations as engine

SetAttribute: TypeAlias = Callable[[Any, str, Any], None]
"""`replace_attribute`, or a monkeypatch's ``setattr`` that is undone after the test."""

Mutation: TypeAlias = Callable[[SetAttribute], None]


def replace_attribute(target: Any, name: str, value: Any) -> None:
    """Set an attribute that exists; raise AttributeError otherwise: a rule that was renamed would not be broken."""
    getattr(target, name)
    setattr(target, name, value)


class _MonkeyPatch:
    """What the engine's mutations take for pytest's."""

    def __init__(self, put: SetAttribute) -> None:
        self.setattr = put


def from_engine(mutation: Callable[[Any], None]) -> Mutation:
    """Return a mutation of the engine's own simulation as one of ours."""

    def mutate(put: SetAttribute) -> None:
        mutation(_MonkeyPatch(put))

    mutate.__name__ = mutation.__name__
    mutate.__doc__ = mutation.__doc__
    return mutate


def prune_unstarted_pods(put: SetAttribute) -> None:
    """Take a bound pod for one that has started: its entry goes before its kubelet has looked."""
    known = consumers.stage_of

    def stage_of(pod, *, started):
        return known(pod, started=started or bool(pod.spec.node_name))

    put(consumers, "stage_of", stage_of)


def release_while_pods_use_it(put: SetAttribute) -> None:
    """Release and deallocate as soon as the workload is over, whoever still runs."""
    put(ClaimView, "unfinished", property(lambda _: 0))
    put(ClaimView, "consuming", property(lambda _: 0))


def trust_the_watch(put: SetAttribute) -> None:
    """Take a claim back without looking live whether a pod is bound or about to be."""

    async def check(*_: object) -> None:
        return

    put(DeallocationReader, "check", check)


def write_whatever_the_version(put: SetAttribute) -> None:
    """Decide on one version of a claim and write on another."""
    known = Client.merge_patch

    async def merge_patch(self, *arguments, **options):
        options.pop("resource_version", None)
        return await known(self, *arguments, **options)

    put(Client, "merge_patch", merge_patch)


def forget_lost_answers(put: SetAttribute) -> None:
    """Take a write whose answer was lost for one that never happened."""

    async def outcome(*_: object) -> None:
        return None

    put(ClaimWriter, "_read_after_unknown_outcome", outcome)


def succeed_without_a_pause(put: SetAttribute) -> None:
    """Let a new leader take claims back while writes of the one before may still arrive."""
    put(Leadership, "previous_writes_until", lambda _: -NEVER)


def free_under_vanished_pods(put: SetAttribute) -> None:
    """Take a pod that was deleted by force for one whose containers have ended."""

    def running(*_: object, **__: object) -> tuple[()]:
        return ()

    put(vanished_pods, "still_running", running)


def keep_claims_on_deleted_nodes(put: SetAttribute) -> None:
    """Wait for devices elsewhere where all nodes of an allocation were deleted, while an autoscaler waits for us."""
    put(nodes, "are_all_deleted", lambda *_, **__: False)


def wait_for_gates_that_go_last(put: SetAttribute) -> None:
    """Keep the gate of this project until Volcano has removed its own."""
    put(consumers, "GATES_REMOVED_LAST", frozenset())


def take_off_all_gates(put: SetAttribute) -> None:
    """Send the pod on whoever else still holds it back."""
    put(consumers.Consumer, "gated_by_us_only", property(lambda self: consumers.SCHEDULING_GATE in self.gates))
    put(patches, "ungate_patch", lambda *_: {"spec": {"schedulingGates": None}})


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *map(from_engine, (*engine.MUTATIONS, engine.forget_the_entered_marker)),
    prune_unstarted_pods,
    release_while_pods_use_it,
    trust_the_watch,
    write_whatever_the_version,
    forget_lost_answers,
    succeed_without_a_pause,
    free_under_vanished_pods,
    keep_claims_on_deleted_nodes,
    wait_for_gates_that_go_last,
    take_off_all_gates,
)

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
