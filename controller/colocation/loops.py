"""The loops of colocation in the controller, in the order in which they see changes."""

from typing import Any

from controller.colocation.batch_resources import BatchResources
from controller.colocation.events import StateEvents
from controller.colocation.metrics import ColocationMetrics
from controller.colocation.node_metrics import NodeMetricObjects
from controller.colocation.slo_configuration import SloConfigurationReports
from controller.informers import ControllerInformers
from controller.metrics import ControllerMetrics
from controller.reconciler import Reconciler
from controller.runtime import Runtime


def colocation_loops(runtime: Runtime[ControllerMetrics], informers: ControllerInformers) -> list[Reconciler[Any]]:
    """Return the loops that serve colocation."""
    metrics = ColocationMetrics(runtime.metrics.registry)
    events = StateEvents(runtime.recorder, metrics)
    reports = SloConfigurationReports(runtime, informers, metrics=metrics, events=events)
    objects = NodeMetricObjects(runtime, informers, configuration=reports.cache)
    batch = BatchResources(runtime, informers, configuration=reports.cache, metrics=metrics, events=events)
    metrics.count_nodes(batch.cache.totals)
    return [reports, objects, batch]
