"""Steps that bring the control groups of a node to a strategy: groups, then their lines, then their threads.

A decision looks at the files as they are and returns what is to be done next. It remembers nothing, so the next one,
after a crash between any two steps as well, goes on where the last one ended:

1. The names of the groups are recorded before anything is written: only recorded groups are ever restored, since groups
   named BE may be those of another agent.
2. A group is made, and the decision ends there for this group: only the next one knows how the kernel made it.
3. Lines are written where numbers differ.
4. Threads are moved in, at last: so no thread is in a group whose limits are still to come.

Off, all recorded groups get the full masks and no limit of bandwidth; once they have them, the record is removed and no
file is touched again. Groups stay, and so do the threads in them: in a full group they run as in the root group.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from dra.api.colocation.strategies import QosStrategy
from dra.engine.plan import Plan
from dra.engine.resctrl.actions import MakeGroup, MoveTasks, RecordGroups, ResctrlAction, WriteLine
from dra.engine.resctrl.bandwidth import PERCENT_MAX, BandwidthError, BandwidthUnit, bandwidth
from dra.engine.resctrl.cache_masks import CacheRangeError, cache_mask
from dra.engine.resctrl.groups import SHAREABLE, ResctrlGroup
from dra.engine.resctrl.reasons import ResctrlCode, ResctrlReason
from dra.engine.resctrl.schemata import (
    CACHES,
    Schemata,
    SchemataError,
    SchemataResource,
    changed_domains,
    parse_schemata,
    print_line,
)
from dra.engine.resctrl.tree import (
    ControlGroup,
    ResctrlTree,
    bandwidth_steps,
    cache_ways,
    free_groups,
    unavailable_reason,
)
from dra.model.meta import Struct

TASKS_PER_DECISION: Final = 10_000
"""Threads that one decision moves at most; the next one moves the rest. A pod may have any number of them."""

NAMES_SHOWN: Final = 5
"""Names of pods or groups that a reason lists at most."""


class ClassShare(Struct, frozen=True):
    """The share of one class by the strategy, in percent; None leaves the group's numbers as they are."""

    cache_start: int | None = 0
    cache_end: int | None = PERCENT_MAX
    bandwidth: int | None = PERCENT_MAX


FULL: Final = ClassShare()
"""All ways of the cache and no limit of bandwidth."""


def class_shares(strategy: QosStrategy) -> Mapping[ResctrlGroup, ClassShare]:
    """Return the share of each class that is enabled; none: nothing is divided."""
    return {
        ResctrlGroup(name): ClassShare(
            cache_start=part.cat_range_start_percent, cache_end=part.cat_range_end_percent, bandwidth=part.mba_percent
        )
        for name, part in strategy.by_class.items()
        if part.enable
    }


class ResctrlView(Struct, frozen=True):
    """The node as a decision sees it."""

    tree: ResctrlTree
    shares: Mapping[ResctrlGroup, ClassShare]
    """The classes that the strategy enables."""

    recorded: AbstractSet[ResctrlGroup] = frozenset()
    threads: Mapping[ResctrlGroup, AbstractSet[int]] = {}
    """Ids of the threads of pods by the group in which they belong."""

    host_pids: bool = True
    """Whether ids of threads mean the same here as on the host."""

    excluded_pods: tuple[str, ...] = ()
    """Pods whose threads are not looked for, as namespace/name."""

    unread_pods: tuple[str, ...] = ()
    """Pods with more cgroups than were read, as namespace/name."""


ResctrlPlan: TypeAlias = Plan[ResctrlAction, ResctrlReason]


def decide(view: ResctrlView) -> ResctrlPlan:
    """Return the next steps for a node, in their order, and the reasons for what is not divided."""
    if not view.shares:
        return _restore(view)
    if text := unavailable_reason(view.tree):
        return Plan(reasons=(ResctrlReason(ResctrlCode.UNAVAILABLE, text),))
    if not view.host_pids:
        return Plan(reasons=(_hidden_pids(),))
    made, left_out = _groups_to_make(view)
    present = _present(view.tree, view.shares.keys() | view.recorded)
    lines, reasons = _lines(view, present)
    moves, kept = _moves(view, present)
    groups = view.recorded | present.keys() | set(made)
    record = () if groups == view.recorded else (RecordGroups(frozenset(groups)),)
    return Plan(
        actions=(*record, *map(MakeGroup, made), *lines, *moves),
        reasons=(*_exhausted(view.tree, left_out), *_taken(view), *reasons, *_excluded(view), *_unread(view), *kept),
    )


def _restore(view: ResctrlView) -> ResctrlPlan:
    """Return the steps that give all recorded groups the full masks; the record goes when none is left to write."""
    lines, reasons = _lines(view, _present(view.tree, view.recorded))
    done = (RecordGroups(frozenset()),) if view.recorded and not lines else ()
    return Plan(actions=(*lines, *done), reasons=tuple(reasons) if lines else ())


def _groups_to_make(view: ResctrlView) -> tuple[list[ResctrlGroup], list[ResctrlGroup]]:
    """Return the groups to make while there are closids, and those for which none is left."""
    absent = [group for group in ResctrlGroup if group in view.shares and group not in view.tree.groups]
    room = free_groups(view.tree)
    return absent[:room], absent[room:]


def _present(tree: ResctrlTree, groups: AbstractSet[ResctrlGroup]) -> dict[ResctrlGroup, ControlGroup]:
    return {
        group: tree.groups[group]
        for group in ResctrlGroup
        if group in groups and group in tree.groups and tree.groups[group].mode == SHAREABLE
    }


def _lines(
    view: ResctrlView, present: Mapping[ResctrlGroup, ControlGroup]
) -> tuple[list[WriteLine], list[ResctrlReason]]:
    lines: list[WriteLine] = []
    reasons: list[ResctrlReason] = []
    for group, files in present.items():
        share = view.shares.get(group, FULL)
        try:
            schemata = parse_schemata(files.schemata)
        except SchemataError as error:
            reasons.append(ResctrlReason(ResctrlCode.GROUP_TAKEN, f"resctrl group {group}: is not written: {error}"))
            continue
        wanted: dict[SchemataResource, int] = {}
        for numbers in (_cache_numbers, _bandwidth_number):
            values, reason = numbers(share, view.tree, group)
            wanted |= values
            reasons += reason
        lines += (WriteLine(group, line) for line in _changed_lines(schemata, wanted))
    return lines, reasons


def _changed_lines(schemata: Schemata, wanted: Mapping[SchemataResource, int]) -> Iterator[str]:
    """Yield a line for each resource that the group has with another number in some domain."""
    for resource, number in wanted.items():
        if changed := changed_domains(schemata.get(resource, {}), number):
            yield print_line(resource, changed)


_Numbers: TypeAlias = tuple[Mapping[SchemataResource, int], Iterable[ResctrlReason]]


def _cache_numbers(share: ClassShare, tree: ResctrlTree, group: ResctrlGroup) -> _Numbers:
    """Return the mask of the L3 cache; with CDP the same for code and data."""
    if share.cache_start is None or share.cache_end is None:
        return {}, ()
    try:
        ways = cache_ways(tree)
        if ways is None:
            return {}, ()
        mask = cache_mask(share.cache_start, share.cache_end, ways=ways)
    except CacheRangeError as error:
        text = f"resctrl group {group}: L3 cache is not divided, and stays as it is: {error}"
        return {}, (ResctrlReason(ResctrlCode.STRATEGY_REFUSED, text),)
    widened = ResctrlReason(
        ResctrlCode.MASK_WIDENED,
        f"resctrl group {group}: gets the ways {mask.bits:x} of the L3 cache, more than {share.cache_start}-"
        f"{share.cache_end} % of {ways.count} ways: the least that the machine accepts is {max(ways.min_bits, 1)}",
    )
    return dict.fromkeys(CACHES, mask.bits), (widened,) if mask.widened else ()


def _bandwidth_number(share: ClassShare, tree: ResctrlTree, group: ResctrlGroup) -> _Numbers:
    steps = bandwidth_steps(tree)
    if steps is None or not share.bandwidth:
        return {}, ()
    if steps.unit is BandwidthUnit.MEGABYTES and share.bandwidth == PERCENT_MAX:
        return {}, ()  # nothing was ever limited here
    try:
        return {SchemataResource.MB: bandwidth(share.bandwidth, steps=steps)}, ()
    except BandwidthError as error:
        text = f"resctrl group {group}: memory bandwidth is not limited, and stays as it is: {error}"
        return {}, (ResctrlReason(ResctrlCode.STRATEGY_REFUSED, text),)


def _moves(
    view: ResctrlView, present: Mapping[ResctrlGroup, ControlGroup]
) -> tuple[list[MoveTasks], list[ResctrlReason]]:
    """Return the moves of threads that are not in their group, and the reason for those that stay elsewhere.

    An id is looked at each time: it may stand for another thread than before. The id 0 would move the writer itself.
    """
    moves = []
    kept: set[int] = set()
    for group, files in present.items():
        if group not in view.shares:
            continue
        strangers = view.threads.get(group, frozenset()) - files.tasks - {0}
        kept |= strangers & view.tree.foreign_tasks
        if tasks := sorted(strangers - view.tree.foreign_tasks)[:TASKS_PER_DECISION]:
            moves.append(MoveTasks(group, tuple(tasks)))
    if not kept:
        return moves, []
    names = _names(view.tree.foreign_groups)
    text = f"resctrl: threads of pods stay in the groups of other tools that they were put into: {names}"
    return moves, [ResctrlReason(ResctrlCode.TASKS_LEFT, text)]


def _exhausted(tree: ResctrlTree, groups: Iterable[ResctrlGroup]) -> Iterator[ResctrlReason]:
    others = _names(tree.foreign_groups) or "none"
    for group in groups:
        text = (
            f"resctrl group {group}: cannot be made, since the machine has no closid left; groups of other tools: "
            f"{others}. Its pods stay in the root group"
        )
        yield ResctrlReason(ResctrlCode.GROUPS_EXHAUSTED, text)


def _taken(view: ResctrlView) -> Iterator[ResctrlReason]:
    for group, files in view.tree.groups.items():
        if group in view.shares and files.mode != SHAREABLE:
            text = f"resctrl group {group}: is not written, since its mode is {files.mode}: another tool uses it"
            yield ResctrlReason(ResctrlCode.GROUP_TAKEN, text)


def _excluded(view: ResctrlView) -> Iterator[ResctrlReason]:
    if view.excluded_pods:
        text = f"resctrl: pods in virtual machines stay in the root group: {_names(view.excluded_pods)}"
        yield ResctrlReason(ResctrlCode.PODS_EXCLUDED, text)


def _unread(view: ResctrlView) -> Iterator[ResctrlReason]:
    if view.unread_pods:
        text = f"resctrl: pods have more cgroups than are read, so some threads may be left: {_names(view.unread_pods)}"
        yield ResctrlReason(ResctrlCode.THREADS_UNREAD, text)


def _hidden_pids() -> ResctrlReason:
    return ResctrlReason(
        ResctrlCode.HOST_PIDS_HIDDEN,
        "resctrl: L3 cache and memory bandwidth are not divided: the plugin does not see the host's process ids; set "
        "hostPID: true in its DaemonSet. A node that is a container itself shares the resctrl of its machine",
    )


def _names(names: tuple[str, ...]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
