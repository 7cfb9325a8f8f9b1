"""The strategies of one node, from the ConfigMap slo-controller-config as the node watches it.

A key that cannot be read keeps its last good content. After a restart there is none, so that key is off; the controller
records the error as an Event on the ConfigMap, and here it is logged once.
"""

import logging
from collections.abc import Mapping
from typing import Final

from dra.api.colocation.slo_configuration import OFF, read_slo_configuration
from dra.api.colocation.strategies import QosStrategy, ThresholdStrategy
from dra.api.colocation.well_known import CONFIG_MAP
from dra.model.meta import Struct
from dra.model.node_pods import ConfigMap

_log: Final = logging.getLogger(__name__)


class NodeStrategies(Struct, frozen=True):
    """The strategies of the ConfigMap for one node."""

    threshold: ThresholdStrategy
    """How batch pods are held back; its ``enable`` is the kill switch."""

    qos: QosStrategy
    """How L3 cache and memory bandwidth are divided."""


class StrategyReader:
    """Follows the ConfigMap with the strategies of all nodes."""

    def __init__(self) -> None:
        self._configuration = OFF
        self._is_known = False

    def observe(self, config_map: ConfigMap) -> None:
        """Follow a ConfigMap that is new or has changed."""
        self._read(config_map.data or {})

    def forget(self, config_map: ConfigMap) -> None:  # noqa: ARG002 - there is one
        """Take the defaults, since the ConfigMap was deleted."""
        self._read(None)

    def observe_listed(self, _: object) -> None:
        """Take note that the ConfigMap, or that there is none, is known from now on."""
        self._is_known = True

    def strategies(self, labels: Mapping[str, str]) -> NodeStrategies | None:
        """Return the strategies of a node with these labels; None before it is known whether there is a ConfigMap."""
        if not self._is_known:
            return None
        return NodeStrategies(
            threshold=self._configuration.threshold_strategy(labels), qos=self._configuration.qos_strategy(labels)
        )

    def _read(self, data: Mapping[str, str] | None) -> None:
        before = self._configuration.problems
        self._configuration = read_slo_configuration(data, last=self._configuration)
        for problem in self._configuration.problems:
            if problem not in before:
                _log.warning("configmap %s: %s", "/".join(CONFIG_MAP), problem)
