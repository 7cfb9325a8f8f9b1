"""The strategies of a node: reads the ConfigMap koordinator-system/slo-controller-config again when it has changed."""

import logging
from collections.abc import Mapping
from typing import Final

from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.api.colocation.strategies import QosStrategy, ThresholdStrategy
from dra.api.colocation.well_known import CONFIG_MAP
from dra.model.meta import Struct
from dra.model.node_pods import ConfigMap

_NAME: Final = "/".join(CONFIG_MAP)

_log: Final = logging.getLogger(__name__)


class NodeStrategies(Struct, frozen=True):
    """What the ConfigMap says for one node."""

    threshold: ThresholdStrategy = ThresholdStrategy()
    qos: QosStrategy = QosStrategy()


class StrategyReader:
    """Reads the strategies of a node; a key that cannot be read keeps its last good content."""

    def __init__(self) -> None:
        self._configuration = OFF
        self._version: str | None = None
        self._problems: frozenset[str] = frozenset()

    def read(self, config_map: ConfigMap | None, *, labels: Mapping[str, str]) -> NodeStrategies:
        """Return the strategies of a node with these labels; without a ConfigMap everything is off."""
        version = "" if config_map is None else f"{config_map.metadata.uid}/{config_map.metadata.resource_version}"
        if version != self._version:
            data = None if config_map is None else config_map.data or {}
            self._configuration = read_slo_configuration(data, last=self._configuration)
            self._version = version
            problems = frozenset(map(str, self._configuration.problems))
            for problem in sorted(problems - self._problems):
                _log.warning("ConfigMap %s: %s", _NAME, problem)
            self._problems = problems
        return NodeStrategies(
            threshold=self._configuration.threshold_strategy(labels), qos=self._configuration.qos_strategy(labels)
        )
