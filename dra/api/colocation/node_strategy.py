"""The colocation strategy of one node, with its annotation and labels over the ConfigMap, and where each field is from.

From below: Koordinator's defaults, ``colocation-config``, its first nodeConfig that matches, the annotation
``node.koordinator.sh/colocation-strategy`` of the Node, and its labels ``cpu-reclaim-ratio`` and
``memory-reclaim-ratio``. An annotation or a label that cannot be used is left out as a whole: what is below it holds.
Ratios are decimals, never binary floating point, in which 0.29 · 100 is 28.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from dra.api.colocation.config_fields import TEXT_MAX, FieldProblem, Layer, merge, read_fields, show
from dra.api.colocation.config_json import MalformedJsonError, decode_object
from dra.api.colocation.config_tables import COLOCATION_FIELDS
from dra.api.colocation.slo_configuration import COLOCATION_ATTRIBUTES, SloConfiguration, colocation_strategy
from dra.api.colocation.strategies import ColocationStrategy
from dra.api.colocation.well_known import (
    ANNOTATION_COLOCATION_STRATEGY,
    LABEL_CPU_RECLAIM_RATIO,
    LABEL_MEMORY_RECLAIM_RATIO,
)
from dra.model.meta import Struct

_RATIO_LABELS: Final = {
    LABEL_CPU_RECLAIM_RATIO: "cpuReclaimThresholdPercent",
    LABEL_MEMORY_RECLAIM_RATIO: "memoryReclaimThresholdPercent",
}
_RATIO: Final = re.compile(r"\+?([0-9]{1,9}(\.[0-9]{0,18})?|\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?")
_PERCENT_MAX: Final = 10**6

ANNOTATION_MAX: Final = 4096
"""Maximum number of characters of the annotation `node.koordinator.sh/colocation-strategy`: whoever may write a Node
may write 256 KiB into it."""


class NodeStrategy(Struct, frozen=True):
    """The colocation strategy of a node."""

    strategy: ColocationStrategy
    layers: tuple[tuple[str, Layer], ...]
    """Where fields are from and what they are, from below: ``cluster``, ``nodeConfig gpu``, ``annotation …``."""

    matching: tuple[str, ...] = ()
    """All nodeConfigs that match the node, in their order; the first one counts."""

    problems: tuple[str, ...] = ()
    """What is wrong with the annotation and the labels of the Node."""

    def sources(self) -> Mapping[str, str]:
        """Return for each field in use where its value is from: ``default`` or the name of a layer."""
        origins = dict.fromkeys(COLOCATION_ATTRIBUTES, "default")
        for source, layer in self.layers:
            origins |= {name: source for name in layer if name in origins}
        return origins


def node_strategy(
    configuration: SloConfiguration, *, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> NodeStrategy:
    """Return the strategy of a node with these labels and annotations."""
    key, problems = configuration.colocation, list[str]()
    matching = key.matching(labels)
    layers = [("cluster", key.cluster)]
    layers += [(first.name, first.layer) for first in matching[:1]]
    layers += _annotation_layer(annotations.get(ANNOTATION_COLOCATION_STRATEGY), problems)
    layers += _label_layers(labels, problems)
    return NodeStrategy(
        strategy=colocation_strategy(_merged(layer for _, layer in layers)),
        layers=tuple(layers),
        matching=tuple(layer.name for layer in matching),
        problems=tuple(problems),
    )


def _merged(layers: Iterable[Layer]) -> Layer:
    merged: Layer = {}
    for layer in layers:
        merged = merge(merged, layer)
    return merged


def _annotation_layer(text: str | None, problems: list[str]) -> list[tuple[str, Layer]]:
    if text is None:
        return []
    source, mine = f"annotation {ANNOTATION_COLOCATION_STRATEGY}", list[FieldProblem]()
    if len(text) > ANNOTATION_MAX:
        problems.append(
            f"{source}: has {len(text)} characters, and at most {ANNOTATION_MAX} are read; it has no effect"
        )
        return []
    try:
        layer = read_fields(decode_object(text), COLOCATION_FIELDS, mine)
    except MalformedJsonError as error:
        mine.append(FieldProblem(path="", text=str(error)))
        layer = {}
    problems += [f"{source}: {problem}" for problem in mine]
    return [(source, layer)] if all(problem.is_warning for problem in mine) else []


def _label_layers(labels: Mapping[str, str], problems: list[str]) -> list[tuple[str, Layer]]:
    layers: list[tuple[str, Layer]] = []
    for label, name in _RATIO_LABELS.items():
        text = labels.get(label)
        if text is None:
            continue
        try:
            layers.append((f"label {label}", {name: ratio_percent(text)}))
        except ValueError as error:
            problems.append(f"label {label}: {error}")
    return layers


def ratio_percent(text: str) -> int:
    """Return a ratio in whole percent, cut: ``"0.8"`` → 80; raises ValueError."""
    if _RATIO.fullmatch(text) is None or (percent := int(Decimal(text) * 100)) > _PERCENT_MAX:
        raise ValueError(f"{show(text[:TEXT_MAX])} is not a ratio, for example 0.8; it has no effect")
    return percent
