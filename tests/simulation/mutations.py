"""Rules, broken one at a time: each of these must be found, or the simulation proves nothing.

Some are the engine's (tests/dra/engine/simulation/mutations.py breaks the same before its own, smaller world), some are
of the shell around it, which only the whole system can show.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from controller.confirmation import Confirmation
from controller.leadership import Leadership
from controller.writer import Writer
from dra.engine import consumers, vanishing
from dra.engine.claims.view import ClaimView
from dra.engine.instants import NEVER
from dra.kube.client import Client
from tests.dra.engine.simulation import mutations as engine

Put: TypeAlias = Callable[[Any, str, Any], None]
"""``setattr``, or a monkeypatch's that is undone after the test."""

Mutation: TypeAlias = Callable[[Put], None]


class _Patching:
    """What the engine's mutations take for pytest's."""

    def __init__(self, put: Put) -> None:
        self.setattr = put


def of_engine(mutation: Callable[[Any], None]) -> Mutation:
    """Return a mutation of the engine's own simulation as one of ours."""

    def mutate(put: Put) -> None:
        mutation(_Patching(put))

    mutate.__name__ = mutation.__name__
    mutate.__doc__ = mutation.__doc__
    return mutate


def prune_unstarted_pods(put: Put) -> None:
    """Take a bound pod for one that has started: its entry goes before its kubelet has looked."""
    known = consumers.stage_of

    def stage_of(pod, *, started):
        return known(pod, started=started or bool(pod.spec.node_name))

    put(consumers, "stage_of", stage_of)


def release_while_pods_use_it(put: Put) -> None:
    """Release and deallocate as soon as the workload is over, whoever still runs."""
    put(ClaimView, "unfinished", property(lambda _: 0))
    put(ClaimView, "consuming", property(lambda _: 0))


def trust_the_watch(put: Put) -> None:
    """Take a claim back without looking live whether a pod is bound or about to be."""

    async def ask(*_: object) -> None:
        return

    put(Confirmation, "ask", ask)


def write_whatever_the_version(put: Put) -> None:
    """Decide on one version of a claim and write on another."""
    known = Client.merge_patch

    async def merge_patch(self, *arguments, **options):
        options.pop("resource_version", None)
        return await known(self, *arguments, **options)

    put(Client, "merge_patch", merge_patch)


def forget_lost_answers(put: Put) -> None:
    """Take a write whose answer was lost for one that never happened."""

    async def outcome(*_: object) -> None:
        return None

    put(Writer, "_outcome", outcome)


def succeed_without_a_pause(put: Put) -> None:
    """Let a new leader take claims back while writes of the one before may still arrive."""
    put(Leadership, "quiet_until", lambda _: -NEVER)


def free_under_vanished_pods(put: Put) -> None:
    """Take a pod that was deleted by force for one whose containers have ended."""

    def running(*_: object, **__: object) -> tuple[()]:
        return ()

    put(vanishing, "running", running)


MUTATIONS: Final[tuple[Mutation, ...]] = (
    *map(of_engine, engine.MUTATIONS),
    prune_unstarted_pods,
    release_while_pods_use_it,
    trust_the_watch,
    write_whatever_the_version,
    forget_lost_answers,
    succeed_without_a_pause,
    free_under_vanished_pods,
)

BY_NAME: Final[Mapping[str, Mutation]] = MappingProxyType({mutation.__name__: mutation for mutation in MUTATIONS})
