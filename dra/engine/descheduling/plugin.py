"""The form of a plugin: an object with a name, the model of its arguments, and one or more extension points.

The extension points and their names are those of Koordinator and of the community's descheduler. A plugin of a user
(entry points of the group ``dra_reserve.descheduler``) has the same form as a built-in one:

    class TooOld:
        name = "TooOld"

        class Args(PluginArgs):
            max_days: int = 30

        def deschedule(self, snapshot, args):
            for pod in snapshot.pods():
                if snapshot.age(pod) > args.max_days * 86400:
                    yield Evict(pod, reason=f"older than {args.max_days} days")

A plugin that needs to know what became of a candidate reads the value of ``yield``: a `Verdict`. From then on the
snapshot shows an accepted pod on its new node. A generator that does nothing may return why as a text, which becomes a
note of the round: ``return "all nodes are underutilized"``.
"""

from collections.abc import Generator, Iterable
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol, TypeAlias, runtime_checkable

from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.descheduling.triggers import Trigger
from dra.model.meta import Struct

__all__ = [
    "ENTRY_POINTS",
    "BalancePlugin",
    "Candidates",
    "DeschedulePlugin",
    "Evict",
    "FilterPlugin",
    "Plugin",
    "PluginArgs",
    "Refusal",
    "Snapshot",
    "Trigger",
    "Verdict",
]

ENTRY_POINTS: Final = "dra_reserve.descheduler"
"""Group of the entry points of users' plugins."""


class Evict(Struct, frozen=True, kw_only=False):
    """A candidate: a pod that a plugin wants to run on another node, or not at all."""

    pod: DeschedulingPod
    reason: str
    """Why, as a clause without the pod's name: ``node is overutilized, cpu usage(98.00%)>threshold(50.00%)``."""
    receivers: AbstractSet[str] | None = None
    """The only nodes that may receive the pod; None: all that it fits on."""
    needs_place: bool = True
    """Whether the pod goes only if a place can be held for its replacement; False for pods that have ended."""
    insists_on_place: bool = False
    """Whether a place is needed even in a profile that evicts without one (``nodeFit: false``)."""
    only_asks: bool = False
    """Whether the plugin only wants the verdict, and nothing is decided: several pods are to go together or none."""


class Refusal(StrEnum):
    """Why a candidate stays, by kind."""

    PROTECTED = "Protected"
    """A filter protects the pod: evictability, budgets, approval."""
    NODE_LIMIT = "NodeLimit"
    NAMESPACE_LIMIT = "NamespaceLimit"
    TOTAL_LIMIT = "TotalLimit"
    WORKLOAD_LIMIT = "WorkloadLimit"
    """A limit on migrations: no other pod of the workload may go either."""
    NO_PLACE = "NoPlace"
    """The pod fits on no receiver."""
    MOVING = "Moving"
    """The pod moves already, by this round or by an unfinished job."""


class WorkloadLimit(str):
    """The text of a filter about a limit that keeps all other pods of the workload as well."""

    __slots__ = ()


class Verdict(Struct, frozen=True):
    """The decision of a round about a candidate."""

    accepted: bool
    node: str = ""
    """The node that has room for the pod, as the snapshot says; kube-scheduler may choose another one."""
    refusal: Refusal | None = None
    message: str = ""
    """Why the pod stays; starts with the object that forbids the eviction."""


Candidates: TypeAlias = Generator[Evict, Verdict, str | None] | Generator[Evict, Verdict, None] | Iterable[Evict]


class Plugin(Protocol):
    """The name and the arguments that every plugin has."""

    name: ClassVar[str]
    Args: ClassVar[type[PluginArgs]]


@runtime_checkable
class DeschedulePlugin(Plugin, Protocol):
    """A plugin that looks at pods one by one."""

    def deschedule(self, snapshot: Snapshot, args: Any) -> Candidates:  # noqa: ANN401 - args is an Args of the plugin
        """Yield the pods that should not run where they are."""


@runtime_checkable
class BalancePlugin(Plugin, Protocol):
    """A plugin that looks at groups of pods or of nodes; all of these run after all plugins of the first kind."""

    def balance(self, snapshot: Snapshot, args: Any) -> Candidates:  # noqa: ANN401 - as above
        """Yield the pods that should run on other nodes."""


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """A plugin that protects pods."""

    def filter(self, pod: DeschedulingPod, snapshot: Snapshot, args: Any) -> str:  # noqa: ANN401 - as above
        """Return why a pod must not be evicted; empty if it may be."""
