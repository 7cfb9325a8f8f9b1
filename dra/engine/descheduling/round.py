"""A round: each plugin of each profile yields candidates; filters, limits and places decide which of them go.

First all Deschedule plugins of all profiles, then all Balance plugins, as in Koordinator and upstream. A limit of a
node or a namespace stops only what is of that node or namespace; a plugin whose candidate meets the total is not asked
for more. Jobs in flight count against the limits. A pod goes once in a round, whichever plugins name it. Dry run is the
same computation: only the evictor differs.

Whatever fails concerns the least possible. A plugin that raises or yields nonsense is skipped for the rest of the
round, and its profile and the others go on. A filter that raises protects all pods of its profile.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from dra.api.descheduler.forms import MIGRATION_CONTROLLER
from dra.api.descheduler.plugin_args import PluginArgs
from dra.api.migration.model import EvictionPolicy
from dra.engine.descheduling.cool_down import DEFAULT_COOL_DOWN_SECONDS, cool_down_of
from dra.engine.descheduling.eviction_counts import EvictionCounts, Limits
from dra.engine.descheduling.node_names import NodeNames
from dra.engine.descheduling.plugin import (
    BalancePlugin,
    Candidates,
    DeschedulePlugin,
    Evict,
    FilterPlugin,
    Refusal,
    Verdict,
    WorkloadLimit,
)
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round_budgets import RoundBudgets
from dra.engine.descheduling.snapshot import WAITING_FOR_ANY_NODE, Snapshot
from dra.model.meta import Struct

__all__ = ["Decision", "Limits", "PluginFault", "Profile", "RoundResult", "run_round"]

_Ask: TypeAlias = Callable[[Snapshot], Candidates]

_CANDIDATES_PER_POD: Final = 4
_CANDIDATES_MIN: Final = 64
_NODES_MIN: Final = 2
_TEXT_MAX: Final = 512
_EXPLAINED_MAX: Final = 50_000
"""Maximum nodes that a round examines a second time, to say why pods fit on none of these."""


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
    receivers: frozenset[str] | None = None
    """The only nodes that may receive pods (``nodeSelector`` of the evictor); None: all."""
    eviction_policy: EvictionPolicy = EvictionPolicy.EVICTION
    """The request that ends the pods: it decides which budgets are asked."""
    cool_down_seconds: int = DEFAULT_COOL_DOWN_SECONDS
    """Age that the replacement of a moved pod must reach before it may be moved again; 0: none."""

    @property
    def plugin_names(self) -> frozenset[str]:
        """The plugins that a round asks, and that may fail in it."""
        return frozenset(plugin.name for plugin, _ in (*self.deschedule, *self.balance, *self.filters))


class Decision(Struct, frozen=True):
    """A candidate and what became of it."""

    pod: DeschedulingPod
    node: str
    """The node that the pod is on."""
    profile: str
    plugin: str
    reason: str
    verdict: Verdict
    receivers: NodeNames | None = None
    """The only nodes that may receive an accepted pod; None: all."""


class PluginFault(Struct, frozen=True):
    """A plugin that was skipped for the rest of the round."""

    profile: str
    plugin: str
    message: str


@dataclass(slots=True)
class RoundResult:
    """The decisions of a round, in order, and its faults and notes."""

    decisions: list[Decision] = field(default_factory=list)
    faults: list[PluginFault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What plugins did not do, and why: all nodes are underutilized, and the like."""


def run_round(snapshot: Snapshot, profiles: Sequence[Profile], *, limits: Limits) -> RoundResult:
    """Run one round; the snapshot shows the accepted moves afterwards."""
    cool_downs = (profile.cool_down_seconds for profile in profiles)
    cool_down = cool_down_of(snapshot.memory)
    cool_down.learn((*snapshot.objects.jobs, *snapshot.objects.ended_jobs), now=snapshot.now)
    cool_down.forget_old(now=snapshot.now, seconds=max(cool_downs, default=0))
    _move_leaving(snapshot)
    the_round = _Round(snapshot, limits)
    profiles = [profile for profile in profiles if the_round.has_nodes(profile)]
    for profile in profiles:
        for deschedule, args in profile.deschedule:
            the_round.ask(profile, deschedule.name, partial(deschedule.deschedule, args=args))
    for profile in profiles:
        for balance, args in profile.balance:
            the_round.ask(profile, balance.name, partial(balance.balance, args=args))
    return the_round.result


def _move_leaving(snapshot: Snapshot) -> None:
    """Move the pods of earlier rounds that terminate still.

    An evictor that makes no jobs leaves nothing in flight. A round that an event starts seconds later would otherwise
    see the same excess again, and the whole of its limits.
    """
    accepted = cool_down_of(snapshot.memory).accepted
    for uid in tuple(accepted):
        pod = snapshot.pod(uid)
        if pod is None:
            del accepted[uid]
        elif pod.metadata.deleting and uid not in snapshot.moved:
            snapshot.move(pod, WAITING_FOR_ANY_NODE)


class NonsenseError(Exception):
    """A plugin yielded what is no candidate."""


class _Round:
    """The state of one round."""

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.result = RoundResult()
        self._snapshot = snapshot
        self._pods_count = len(snapshot.objects.pods)
        self._counts = EvictionCounts(limits, snapshot)
        self._explained = 0
        """Nodes that were examined to explain refusals."""
        self._cool_down = cool_down_of(snapshot.memory)
        self._arriving = {
            job.status.pod_ref.key: job.metadata.name for job in snapshot.objects.jobs if job.status.pod_ref is not None
        }
        """Replacement that a job in flight waits for → the job."""
        self._ended = {job.spec.pod_ref.uid: job for job in snapshot.objects.ended_jobs if job.spec.pod_ref.uid}
        """Pod whose migration has failed or was rejected → the job, while the job exists."""
        self._faulty: set[tuple[str, str]] = set()
        """Profile and name of the plugins that are skipped."""

    def has_nodes(self, profile: Profile) -> bool:
        """Return whether a profile has two ready nodes; a pod of the only one has nowhere to go, as upstream says."""
        names = self._snapshot.nodes.keys() if profile.nodes is None else profile.nodes & self._snapshot.nodes.keys()
        ready = sum(self._snapshot.nodes[name].node.ready for name in names)
        if ready < _NODES_MIN:
            text = f"profile {profile.name}: its plugins are not asked, since {ready} of its nodes are ready"
            self.result.notes.append(f"{text} and a pod needs another node to go to")
        return ready >= _NODES_MIN

    def ask(self, profile: Profile, plugin: str, ask: _Ask) -> None:
        """Ask one plugin for candidates, and decide on each."""
        if (profile.name, plugin) in self._faulty:
            return
        try:
            holds_places = profile.evictor == MIGRATION_CONTROLLER
            self._snapshot.ask_for(profile.name, plugin, nodes=profile.nodes, holds_places=holds_places)
            candidates = ask(self._snapshot)
            replies = candidates if isinstance(candidates, Generator) else _without_replies(candidates)
            note = self._exchange(profile, plugin, replies)
        except Exception as error:  # noqa: BLE001 - plugins may be users', and none ends the round of the others
            self._skip(profile, plugin, error)
        else:
            if note and isinstance(note, str):
                self.result.notes.append(f"profile {profile.name}: {plugin}: {note[:_TEXT_MAX]}")

    def _exchange(self, profile: Profile, plugin: str, candidates: Generator[Evict, Verdict, str | None]) -> str | None:
        """Decide on the candidates of a plugin one after the other, each before the next is asked for."""
        allowed = _CANDIDATES_MIN + _CANDIDATES_PER_POD * self._pods_count
        try:
            candidate = next(candidates)
            for _ in range(allowed):
                verdict = self._decide(profile, plugin, candidate)
                if verdict.refusal is Refusal.TOTAL_LIMIT:
                    candidates.close()
                    return None
                candidate = candidates.send(verdict)
        except StopIteration as stop:
            note: str | None = stop.value
            return note
        candidates.close()
        raise NonsenseError(f"yields more than {allowed} candidates for {self._pods_count} pods")

    def _skip(self, profile: Profile, plugin: str, error: Exception) -> None:
        self._faulty.add((profile.name, plugin))
        text = str(error) if isinstance(error, NonsenseError) else f"{type(error).__name__}: {error}"
        message = f"profile {profile.name}: plugin {plugin} is skipped for the rest of the round: {text[:_TEXT_MAX]}"
        self.result.faults.append(PluginFault(profile=profile.name, plugin=plugin, message=message))

    def _decide(self, profile: Profile, plugin: str, candidate: object) -> Verdict:
        if not isinstance(candidate, Evict) or not isinstance(candidate.pod, DeschedulingPod):
            raise NonsenseError(f"yields a {type(candidate).__name__}, not an Evict with a pod of the snapshot")
        pod = self._snapshot.pod(candidate.pod.metadata.uid)
        if pod is None:
            raise NonsenseError(f"pod {'/'.join(candidate.pod.metadata.key)[:_TEXT_MAX]}: is not in the snapshot")
        refusal = next(self._refusals(profile, pod), None)
        receivers = None if refusal else self._receivers(candidate, profile)
        if candidate.only_asks:
            return refusal or self._answer(profile, pod, candidate, receivers)
        verdict = refusal or self._place(profile, pod, candidate, receivers)
        decision = Decision(
            pod=pod,
            node=pod.spec.node_name,
            profile=profile.name,
            plugin=plugin,
            reason=str(candidate.reason)[:_TEXT_MAX],
            verdict=verdict,
            receivers=receivers if verdict.accepted else None,
        )
        self.result.decisions.append(decision)
        return verdict

    def _refusals(self, profile: Profile, pod: DeschedulingPod) -> Iterator[Verdict]:
        """Yield why a candidate stays wherever there is room; what is cheap to find out comes first."""
        name, node = f"pod {'/'.join(pod.metadata.key)}", pod.spec.node_name
        if pod.metadata.uid in self._snapshot.moved:
            yield _refused(Refusal.MOVING, f"{name}: is being moved already")
        if job := self._arriving.get(pod.metadata.key):
            yield _refused(Refusal.MOVING, f"{name}: podmigrationjob {job} waits until it is ready")
        if profile.nodes is not None and node not in profile.nodes:
            yield _refused(Refusal.PROTECTED, f"node {node or '(none)'}: is not a node of profile {profile.name}")
        if (ended := self._ended.get(pod.metadata.uid)) is not None:
            text = f"podmigrationjob {ended.metadata.name} ended as {ended.status.phase} ({ended.status.reason})"
            yield _refused(Refusal.PROTECTED, f"{name}: {text}; no other one is made while it exists")
        if text := self._protection(profile, pod) or self._cool_down_text(profile, pod):
            is_limit = isinstance(text, WorkloadLimit)
            yield _refused(Refusal.WORKLOAD_LIMIT if is_limit else Refusal.PROTECTED, text[:_TEXT_MAX])
        yield from self._counts.refusals(pod)
        if text := self._snapshot.part(RoundBudgets).refusal(pod, profile.eviction_policy):
            yield _refused(Refusal.PROTECTED, text)

    def _protection(self, profile: Profile, pod: DeschedulingPod) -> str:
        """Return why the filters of a profile protect a pod; empty if none does."""
        for plugin, args in profile.filters:
            if (profile.name, plugin.name) in self._faulty:
                return f"profile {profile.name}: filter {plugin.name} failed, so that its pods stay"
            try:
                text = plugin.filter(pod, self._snapshot, args)
            except Exception as error:  # noqa: BLE001 - a filter may be a user's
                self._skip(profile, plugin.name, error)
                return f"profile {profile.name}: filter {plugin.name} failed, so that its pods stay"
            if text:
                return text if isinstance(text, WorkloadLimit) else str(text)
        return ""

    def _cool_down_text(self, profile: Profile, pod: DeschedulingPod) -> str:
        return self._cool_down.refusal(pod, seconds=profile.cool_down_seconds, now=self._snapshot.now)

    def _receivers(self, candidate: Evict, profile: Profile) -> NodeNames | None:
        """Return the nodes that both the plugin and the profile allow; None stands for all nodes."""
        given = [names for names in (candidate.receivers, profile.receivers) if names is not None]
        return self._snapshot.node_names(given[0] if len(given) == 1 else given[0] & given[1]) if given else None

    def _place(self, profile: Profile, pod: DeschedulingPod, candidate: Evict, among: NodeNames | None) -> Verdict:
        """Move a pod to the node that has room for its replacement; without room it stays, if it needs a place."""
        verdict = self._answer(profile, pod, candidate, among)
        if verdict.accepted:
            self._counts.add(pod)
            self._cool_down.record(pod, now=self._snapshot.now)
            self._snapshot.move(pod, verdict.node)
        return verdict

    def _answer(self, profile: Profile, pod: DeschedulingPod, asked: Evict, among: NodeNames | None) -> Verdict:
        """Return the verdict on a pod that nothing but the lack of a place would keep."""
        node = WAITING_FOR_ANY_NODE
        if asked.needs_place:
            node = self._snapshot.fitting_node(pod, among=among)
            if not node and (profile.requires_place or asked.insists_on_place):
                return _refused(Refusal.NO_PLACE, self._no_place_text(pod, among))
        return Verdict(accepted=True, node=node)

    def _no_place_text(self, pod: DeschedulingPod, among: NodeNames | None) -> str:
        """Return why a pod has no place: with reasons for the first pods, since each costs a look at all nodes."""
        self._explained += len(self._snapshot.nodes if among is None else among)
        if self._explained > _EXPLAINED_MAX:
            return f"pod {'/'.join(pod.metadata.key)}: fits on no node that may receive it"
        return f"pod {'/'.join(pod.metadata.key)}: {self._snapshot.no_place_reason(pod, among=among)}"


def _refused(refusal: Refusal, message: str) -> Verdict:
    return Verdict(accepted=False, refusal=refusal, message=message)


def _without_replies(candidates: Iterable[Evict]) -> Generator[Evict, Verdict, None]:
    """Yield the candidates of a plugin that does not ask what became of them."""
    for candidate in candidates:  # noqa: UP028 - "yield from" would send the verdicts to an iterator that takes none
        yield candidate
