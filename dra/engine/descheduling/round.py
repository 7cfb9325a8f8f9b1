"""A round: each plugin of each profile yields candidates; filters, limits and places decide which of them go.

First all Deschedule plugins of all profiles, then all Balance plugins, as in Koordinator and upstream. A limit of a
node or a namespace stops only what is of that node or namespace; the total ends the round. Dry run counts in the same
way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import BalancePlugin, DeschedulePlugin, FilterPlugin, Verdict
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.meta import Struct


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum evictions of a round; None: no limit, 0: none at all."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: plugins with their arguments, in the order in which they run."""

    name: str
    deschedule: tuple[tuple[DeschedulePlugin, PluginArgs], ...] = ()
    balance: tuple[tuple[BalancePlugin, PluginArgs], ...] = ()
    filters: tuple[tuple[FilterPlugin, PluginArgs], ...] = ()
    evictor: str = "MigrationController"
    """The plugin that carries the accepted decisions out."""
    nodes: frozenset[str] | None = None
    """The only nodes whose pods the profile evicts; None: all."""
    requires_place: bool = True
    """Whether a pod goes only if the snapshot has a place for it (nodeFit, or an evictor that reserves first)."""


class Decision(Struct, frozen=True):
    """A candidate and what became of it."""

    pod: DeschedulingPod
    node: str
    """The node that the pod is on."""
    profile: str
    plugin: str
    reason: str
    verdict: Verdict
    receivers: frozenset[str] | None = None


class PluginFault(Struct, frozen=True):
    """A plugin that was skipped for the rest of the round."""

    profile: str
    plugin: str
    message: str


@dataclass(slots=True)
class RoundResult:
    """What a round decided, in order."""

    decisions: list[Decision] = field(default_factory=list)
    faults: list[PluginFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What plugins did not do, and why: all nodes are underutilized, and the like."""


def run_round(snapshot: Snapshot, profiles: Sequence[Profile], *, limits: Limits) -> RoundResult:
    """Run one round; the snapshot shows the accepted moves afterwards."""
    raise NotImplementedError
