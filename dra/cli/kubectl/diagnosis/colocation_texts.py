"""Texts about what nodes use and what they offer to batch pods."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.api.colocation.well_known import BATCH_CPU, CONFIG_MAP, KEY_COLOCATION
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis import colocation
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.diagnosis.colocation import NODE_METRICS, Sampled, Sampling
from dra.engine.diagnosis.node_use import ResourceUse
from dra.engine.messages.texts import singularize
from dra.model.quantities import CPU

CONFIG_MAP_TEXT: Final = f"ConfigMap {'/'.join(CONFIG_MAP)}"
UNKNOWN: Final = "<unknown>"

_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
_ROUNDED: Final = 2
"""An age is given in a unit from twice the unit on, as kubectl does."""


def amount_text(resource: str, amount: int) -> str:
    """Return milli-CPUs or bytes as ``kubectl top`` prints them: ``1500m``, ``2048Mi``."""
    return f"{amount}m" if resource in {CPU, BATCH_CPU} else f"{amount >> 20}Mi"


def age_text(seconds: float) -> str:
    """Return an age as kubectl prints it: ``35s``, ``4m``, ``2h``."""
    whole = max(int(seconds), 0)
    size, unit = next((unit_size for unit_size in _UNITS if whole >= _ROUNDED * unit_size[0]), _UNITS[-1])
    return f"{whole // size}{unit}"


def sampled_text(sampled: Sampled) -> str:
    """Return the age of a node's samples, as a cell."""
    match sampled.sampling:
        case Sampling.FRESH:
            return age_text(sampled.seconds)
        case Sampling.STALE:
            return f"{age_text(sampled.seconds)} (stale)"
        case Sampling.UNREAD:
            return UNKNOWN
        case _:
            return "<none>"


def cluster_notes(cluster: ClusterState, *, now: datetime) -> Iterator[str]:
    """Yield what a table of batch resources needs beside it: why numbers are missing, or are 0."""
    gaps = {gap.resource: gap.why for gap in cluster.snapshot.gaps}
    for resource, why in gaps.items():
        yield f"not read: {resource}: {why}"
    if cluster.node_metrics is None:
        yield (
            "NodeMetrics are not served, so the use of nodes is unknown: install component colocation (kubectl dra "
            "install --help)"
        )
        return
    if NODE_METRICS in gaps or not colocation.has_configuration(cluster):
        return
    if cluster.snapshot.colocation_config is None:
        yield f"{CONFIG_MAP_TEXT}: does not exist, so colocation is off for all nodes"
        return
    for problem in colocation.configuration(cluster).problems:
        yield f"{CONFIG_MAP_TEXT}: {problem}"
    if colocation.has_broken_strategy(cluster):
        yield "processes keep the last valid content of the key; one that starts now takes it as absent"
        return
    enabled = [
        (name, node)
        for name, node in sorted(cluster.nodes.items())
        if colocation.strategy_of(cluster, node).strategy.enable
    ]
    if not enabled:
        yield f"{CONFIG_MAP_TEXT}: key {KEY_COLOCATION} enables colocation for no node"
    elif len(enabled) < len(cluster.nodes):
        yield f"colocation is on for {len(enabled)} of {len(cluster.nodes)} nodes"
    lacking = [name for name, node in enabled if not colocation.sampled(cluster, node, now=now).is_usable]
    if lacking:
        text = f"{len(lacking)} of {len(enabled)} nodes with colocation are not sampled ({list_names(lacking)})"
        yield singularize(
            f"{text}: only what batch pods hold there stays offered. See: kubectl dra explain node {lacking[0]}"
        )


def use_data(use: ResourceUse) -> dict[str, int | None]:
    """Return the numbers of one resource of a node as ``-o json`` prints them."""
    return {
        "capacity": use.capacity,
        "used": use.used,
        "requested": use.requested,
        "offered": use.offered,
        "held": use.held,
        "left": use.left,
    }
