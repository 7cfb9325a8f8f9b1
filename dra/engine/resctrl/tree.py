"""The resctrl filesystem of a machine as it was read, and what follows from its ``info`` directory."""

from collections.abc import Mapping
from typing import Final

from dra.engine.resctrl.bandwidth import AMD_UNLIMITED, PERCENT_MAX, BandwidthSteps, BandwidthUnit, bandwidth_unit
from dra.engine.resctrl.cache_masks import CacheRangeError, CacheWays
from dra.engine.resctrl.groups import ROOT_GROUPS, SHAREABLE, ResctrlGroup
from dra.engine.resctrl.schemata import Schemata, SchemataError, SchemataResource, parse_schemata
from dra.model.meta import Struct

_CACHE_INFO: Final = ("L3", "L3CODE", "L3DATA")


class ControlGroup(Struct, frozen=True):
    """The files of one control group."""

    schemata: str
    tasks: frozenset[int] = frozenset()
    """The ids of threads, in the PID namespace of the reader."""

    mode: str = SHAREABLE


class ResctrlTree(Struct, frozen=True):
    """The files of ``/sys/fs/resctrl`` and what else describes the machine."""

    mounted: bool = False
    supported: bool = False
    """Whether the kernel knows the filesystem: ``/proc/filesystems``."""

    mount_options: tuple[str, ...] = ()
    vendor: str = ""
    """``vendor_id`` of ``/proc/cpuinfo``; machines that are not x86 have none."""

    info: Mapping[str, Mapping[str, str]] = {}
    """The files of ``info``, by directory and name."""

    root_schemata: str = ""
    groups: Mapping[ResctrlGroup, ControlGroup] = {}
    """The groups with our names that exist."""

    foreign_groups: tuple[str, ...] = ()
    foreign_tasks: frozenset[int] = frozenset()
    """The ids of threads in groups of other tools."""


def unavailable_reason(tree: ResctrlTree) -> str:
    """Return why the machine divides neither L3 cache nor memory bandwidth; empty if it divides one of them."""
    if not tree.mounted:
        if tree.supported:
            return "resctrl is not mounted; mount it with: mount -t resctrl resctrl /sys/fs/resctrl"
        return "the kernel or the CPU has no resctrl, so L3 cache and memory bandwidth are not divided"
    if not {*_CACHE_INFO, "MB"} & tree.info.keys():
        return "resctrl divides neither L3 cache nor memory bandwidth on this machine"
    return ""


def cache_ways(tree: ResctrlTree) -> CacheWays | None:
    """Return the ways of the L3 cache; None if the machine cannot divide it. Raises CacheRangeError for a bad mask."""
    info = next((tree.info[name] for name in _CACHE_INFO if name in tree.info), None)
    if info is None:
        return None
    mask = info.get("cbm_mask", "")
    try:
        return CacheWays(full=int(mask, 16), min_bits=_number(info, "min_cbm_bits", default=1))
    except ValueError as error:
        raise CacheRangeError(str(error) if isinstance(error, CacheRangeError) else f"cbm_mask is {mask!r}") from error


def bandwidth_steps(tree: ResctrlTree) -> BandwidthSteps | None:
    """Return the numbers of memory bandwidth that the machine accepts; None if it cannot divide bandwidth."""
    info = tree.info.get("MB")
    if info is None:
        return None
    numbers = _root_numbers(tree)
    unit = bandwidth_unit(vendor=tree.vendor, mount_options=tree.mount_options, numbers=numbers)
    return BandwidthSteps(
        unit=unit,
        minimum=_number(info, "min_bandwidth", default=10),
        step=_number(info, "bandwidth_gran", default=10),
        unlimited=max((AMD_UNLIMITED, *numbers)) if unit is BandwidthUnit.EIGHTH_GIGABYTES else PERCENT_MAX,
    )


def free_groups(tree: ResctrlTree) -> int:
    """Return how many more control groups the machine can have."""
    limits = [int(files["num_closids"]) for files in tree.info.values() if files.get("num_closids", "").isdigit()]
    return max(0, min(limits, default=0) - ROOT_GROUPS - len(tree.groups) - len(tree.foreign_groups))


def _root_numbers(tree: ResctrlTree) -> tuple[int, ...]:
    try:
        root: Schemata = parse_schemata(tree.root_schemata)
    except SchemataError:
        return ()
    return tuple(root.get(SchemataResource.MB, {}).values())


def _number(info: Mapping[str, str], name: str, *, default: int) -> int:
    text = info.get(name, "")
    return int(text) if text.isdigit() else default
