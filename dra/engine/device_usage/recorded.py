"""The use of devices as one process has seen it, for where no Prometheus has a history.

Only changes are kept, so that quiet days cost nothing. A namespace whose workloads change often loses the begin of its
own history first. A pause of more than `GAP_MAX` ends what was so before: nobody knows what was so meanwhile.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup, limit_groups
from dra.engine.device_usage.history import GAP_MAX, GroupHistory, group_name
from dra.engine.device_usage.timelines import SPANS, Span, Timeline

CHANGES_MAX: Final = 10_000
"""Maximum number of changes of devices that are remembered without a Prometheus; these take about 4 MiB. Beyond it, the
namespace with most changes loses its oldest."""

KEPT: Final = float(max(span.seconds for span in SPANS.values()))
"""Seconds for which a change is kept."""

_NOTHING: Final = DeviceNumbers(0, 0)
_HOUR: Final = 3600.0


class _Change(NamedTuple):
    at: float
    group: UsageGroup
    numbers: DeviceNumbers
    """What the group has from then on."""


class _Stretch(NamedTuple):
    """A time in which the numbers of a group were the same."""

    begin: float
    end: float
    numbers: DeviceNumbers


class RecordedUse:
    """The changes of the numbers of all groups; times are Unix times."""

    def __init__(self) -> None:
        self.begun: float | None = None
        """Time of the first record."""

        self._last = 0.0
        self._present: dict[UsageGroup, DeviceNumbers] = {}
        self._changes: defaultdict[str, deque[_Change]] = defaultdict(deque)
        self._before: defaultdict[str, dict[UsageGroup, DeviceNumbers]] = defaultdict(dict)
        """Numbers before the first change that is kept, by namespace."""

        self._known_from: dict[str, float] = {}
        """Time from which on all changes of a namespace are kept, where that is not the first record."""

    def record(self, groups: Mapping[UsageGroup, DeviceNumbers], *, now: float) -> None:
        """Record the numbers of all groups at a time; an earlier time than the last one is left out."""
        if self.begun is None:
            self.begun = now
        elif now < self._last:
            return
        elif now - self._last > GAP_MAX:
            self._apply({}, at=self._last)
        self._apply(limit_groups(groups), at=now)
        self._last = now
        self._forget_old(now - KEPT)

    def known_since(self, namespaces: Collection[str] | None) -> float | None:
        """Return the time since when all changes of the namespaces are known; None before the first record."""
        if self.begun is None:
            return None
        cut = [at for name, at in self._known_from.items() if namespaces is None or name in namespaces]
        return max([self.begun, *cut])

    def history(self, *, span: Span, namespaces: Collection[str] | None, now: float) -> dict[UsageGroup, GroupHistory]:
        """Return the history of each group until ``now``; of some namespaces alone if they are given."""
        return {
            group: _history(stretches, present=self._present.get(group, _NOTHING), start=start)
            for group, start, stretches in self._stretches(namespaces, begin=now - span.seconds, end=now)
        }

    def timelines(
        self, by: str, groups: Collection[UsageGroup], *, span: Span, namespaces: Collection[str] | None, now: float
    ) -> dict[str, Timeline]:
        """Return the lines of some groups, which are named as ``by`` names them."""
        begin = now - span.seconds
        sums: dict[str, tuple[list[float], list[float]]] = {}
        for group, _, stretches in self._stretches(namespaces, begin=begin, end=now):
            if group not in groups:
                continue
            held, used = sums.setdefault(group_name(by, group), ([0.0] * span.periods, [0.0] * span.periods))
            for stretch in stretches:
                for period, share in _shares(stretch, span, begin):
                    held[period] += stretch.numbers.held * share
                    used[period] += stretch.numbers.used * share
        return {name: Timeline(held=tuple(held), used=tuple(used)) for name, (held, used) in sums.items()}

    def _apply(self, groups: Mapping[UsageGroup, DeviceNumbers], *, at: float) -> None:
        for group in self._present.keys() | groups.keys():
            numbers = groups.get(group, _NOTHING)
            if numbers != self._present.get(group, _NOTHING):
                self._changes[group.namespace].append(_Change(at, group, numbers))
        self._present = dict(groups)

    def _forget_old(self, until: float) -> None:
        for namespace, changes in tuple(self._changes.items()):
            while changes and changes[0].at < until:
                self._forget_first(namespace)
        total = sum(map(len, self._changes.values()))
        for _ in range(total - CHANGES_MAX):
            longest = max(self._changes, key=lambda name: len(self._changes[name]))
            self._known_from[longest] = self._changes[longest][0].at
            self._forget_first(longest)
        for namespace, at in tuple(self._known_from.items()):
            if at < until:
                del self._known_from[namespace]

    def _forget_first(self, namespace: str) -> None:
        """Forget the oldest change of a namespace; the history of its group begins with it."""
        changes, before = self._changes[namespace], self._before[namespace]
        _, group, numbers = changes.popleft()
        if numbers.held:
            before[group] = numbers
        else:
            before.pop(group, None)
        if not changes:
            del self._changes[namespace]
        if not before:
            del self._before[namespace]

    def _stretches(
        self, namespaces: Collection[str] | None, *, begin: float, end: float
    ) -> Iterator[tuple[UsageGroup, float, list[_Stretch]]]:
        """Yield the groups with the time since when their numbers are known, and their numbers over time."""
        for namespace in sorted(self._changes.keys() | self._before.keys()):
            if namespaces is not None and namespace not in namespaces:
                continue
            start = max(begin, self.begun or begin, self._known_from.get(namespace, begin))
            by_group: defaultdict[UsageGroup, list[tuple[float, DeviceNumbers]]] = defaultdict(list)
            for group, numbers in self._before.get(namespace, {}).items():
                by_group[group].append((start, numbers))
            for at, group, numbers in self._changes.get(namespace, ()):
                by_group[group].append((max(at, start), numbers))
            for group, points in sorted(by_group.items()):
                ends = [*(at for at, _ in points[1:]), end]
                stretches = [
                    _Stretch(at, until, numbers)
                    for (at, numbers), until in zip(points, ends, strict=True)
                    if until > at
                ]
                if any(stretch.numbers.held for stretch in stretches):
                    yield group, start, stretches


def _history(stretches: list[_Stretch], *, present: DeviceNumbers, start: float) -> GroupHistory:
    idle_since = None
    for stretch in reversed(stretches if present.held > present.used else ()):
        if stretch.numbers.used >= stretch.numbers.held:
            break
        idle_since = stretch.begin if stretch.begin > start else None
    return GroupHistory(
        held=present.held,
        used=present.used,
        held_hours=sum((stretch.end - stretch.begin) * stretch.numbers.held for stretch in stretches) / _HOUR,
        used_hours=sum((stretch.end - stretch.begin) * stretch.numbers.used for stretch in stretches) / _HOUR,
        idle_since=idle_since,
    )


def _shares(stretch: _Stretch, span: Span, begin: float) -> Iterator[tuple[int, float]]:
    """Yield the periods that a stretch touches, with the part of each."""
    first = int((stretch.begin - begin) // span.period)
    for period in range(max(first, 0), span.periods):
        start = begin + period * span.period
        if start >= stretch.end:
            return
        yield period, (min(stretch.end, start + span.period) - max(stretch.begin, start)) / span.period
