"""Balance plugins that undo each other's work: the one fills nodes from which the other one evicts.

Public reports have pods that were moved every few minutes between two such plugins, of one profile or of two.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Final

from dra.api.descheduler.load_plugin_args import HighNodeUtilizationArgs, LowNodeLoadArgs, LowNodeUtilizationArgs
from dra.api.descheduler.plugin_args import PluginArgs
from dra.api.descheduler.problems import Path, format_path
from dra.model.meta import Struct

_FULL: Final = 100.0


class _Band(Struct, frozen=True):
    """The effect of a plugin on nodes, by resource, in percent of use."""

    fills_up_to: Mapping[str, float]
    takes_above: Mapping[str, float]
    empties: bool = False
    """Whether the plugin empties nodes with little use, instead of filling these."""


def conflicts(enabled: Sequence[tuple[Path, str, PluginArgs]]) -> Iterator[str]:
    """Yield a text for each pair of Balance plugins that undo each other's work; it starts with a path."""
    bands = [(path, name, band) for path, name, args in enabled for band in _bands(args)]
    reported: set[tuple[Path, Path]] = set()
    for (path, name, band), (other_path, other_name, other) in permutations(bands, 2):
        text = _conflict_text(band, other)
        pair = (min(path, other_path, key=str), max(path, other_path, key=str))
        if text and path != other_path and pair not in reported:
            reported.add(pair)
            yield f"{format_path(path)}: {name} {text} {other_name} ({format_path(other_path)}); disable one of both"


def _conflict_text(band: _Band, other: _Band) -> str:
    shared = sorted(band.fills_up_to.keys() & other.fills_up_to.keys())
    if other.empties and not band.empties and shared:
        return f"fills nodes with little {' and '.join(shared)}, as are emptied by"
    for resource in band.fills_up_to.keys() & other.takes_above.keys():
        filled, taken = band.fills_up_to[resource], other.takes_above[resource]
        if not band.empties and filled > taken:
            return f"fills nodes up to {filled:g} % of {resource}, and above {taken:g} % pods are evicted by"
    return ""


def _bands(args: PluginArgs) -> Iterator[_Band]:
    match args:
        case HighNodeUtilizationArgs():
            yield _Band(fills_up_to=dict.fromkeys(args.thresholds, _FULL), takes_above={}, empties=True)
        case LowNodeUtilizationArgs():
            yield _balancing(args.target_thresholds, is_deviation=args.use_deviation_thresholds)
        case LowNodeLoadArgs():
            for pool in args.effective_pools:
                is_deviation = bool(pool.use_deviation_thresholds)
                yield _balancing(pool.high_thresholds or {}, is_deviation=is_deviation)


def _balancing(high: Mapping[str, float], *, is_deviation: bool) -> _Band:
    """Return the band of a plugin that fills nodes up to the threshold above which it takes pods from others.

    Distances from a mean say nothing about the percentages of another plugin.
    """
    if is_deviation:
        return _Band(fills_up_to=dict.fromkeys(high, 0.0), takes_above=dict.fromkeys(high, _FULL))
    return _Band(fills_up_to=high, takes_above=high)
