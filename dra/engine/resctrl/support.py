"""Facts about what a machine can divide, as one line for people."""

from dra.engine.resctrl.bandwidth import BandwidthUnit
from dra.engine.resctrl.cache_masks import CacheRangeError
from dra.engine.resctrl.schemata import CACHES, SchemataError, SchemataResource, parse_schemata
from dra.engine.resctrl.tree import ResctrlTree, bandwidth_steps, cache_ways, free_groups, unavailable_reason


def resctrl_support(tree: ResctrlTree) -> str:
    """Return what of L3 cache and memory bandwidth the machine can divide, or why it divides nothing."""
    return unavailable_reason(tree) or "; ".join((_cache_text(tree), _bandwidth_text(tree), _groups_text(tree)))


def _cache_text(tree: ResctrlTree) -> str:
    try:
        ways = cache_ways(tree)
    except CacheRangeError as error:
        return f"L3 cache: not divided, {error}"
    if ways is None:
        return "L3 cache: cannot be divided"
    code_and_data = ", code and data apart (CDP)" if "L3CODE" in tree.info else ""
    return f"L3 cache: {ways.count} ways, at least {max(ways.min_bits, 1)}{code_and_data}, {_domains(tree, *CACHES)}"


def _bandwidth_text(tree: ResctrlTree) -> str:
    steps = bandwidth_steps(tree)
    if steps is None:
        return "memory bandwidth: cannot be limited"
    match steps.unit:
        case BandwidthUnit.MEGABYTES:
            return "memory bandwidth: not limited, since the mount counts MB/s (mba_MBps)"
        case BandwidthUnit.EIGHTH_GIGABYTES:
            return f"memory bandwidth: from 10 %, in 1/8 GB/s, {_domains(tree, SchemataResource.MB)}"
        case BandwidthUnit.PERCENT:
            by = f"from {steps.minimum} % in steps of {steps.step} %"
            return f"memory bandwidth: {by}, {_domains(tree, SchemataResource.MB)}"


def _groups_text(tree: ResctrlTree) -> str:
    return f"control groups: {len(tree.groups)} ours, {len(tree.foreign_groups)} others, {free_groups(tree)} free"


def _domains(tree: ResctrlTree, *resources: SchemataResource) -> str:
    try:
        root = parse_schemata(tree.root_schemata)
    except SchemataError as error:
        return f"domains unknown: {error}"
    count = next((len(root[resource]) for resource in resources if resource in root), 0)
    return f"{count} {'domain' if count == 1 else 'domains'}"
