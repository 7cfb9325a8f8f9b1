"""Prometheus metrics of the division of cache and memory bandwidth."""

from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge

from dra.engine.resctrl.groups import ResctrlGroup
from dra.engine.resctrl.reasons import ResctrlCode, ResctrlReason


class ResctrlMetrics:
    """The metrics of the division, in the registry of its plugin."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._impaired = Gauge(
            "dra_reserve_node_resctrl_impaired",
            "1 if cache or memory bandwidth is not divided as the strategy says, for this reason; an Event on the Node "
            "has the details",
            ["reason"],
            registry=registry,
        )
        self.lines = Counter(
            "dra_reserve_node_resctrl_lines_written",
            "Lines written to the schemata of control groups; another writer makes it grow without end",
            ["group"],
            registry=registry,
        )
        self.threads = Counter(
            "dra_reserve_node_resctrl_threads_moved",
            "Threads of pods that were moved to a control group",
            ["group"],
            registry=registry,
        )
        for group in ResctrlGroup:
            self.lines.labels(group.value)
            self.threads.labels(group.value)
        self.show([])

    def show(self, reasons: Collection[ResctrlReason]) -> None:
        """Set the gauge of each reason."""
        present = {reason.code for reason in reasons}
        for code in ResctrlCode:
            self._impaired.labels(code.value).set(code in present)
