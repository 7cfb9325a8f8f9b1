"""The objects that the controller keeps in memory: each form of a kind once, and only if a part subscribes to it."""

from sys import intern
from typing import Final

from dra.api.colocation.well_known import CONFIG_MAP_NAME, CONFIG_MAP_NAMESPACE
from dra.api.configuration import PlaceholderMode
from dra.api.koordinator.well_known import ENABLED, GPU_DRIVER, LABEL_ENABLED
from dra.engine.claims.consumers import concerns_claims
from dra.engine.colocation import watched
from dra.engine.colocation.watched import WatchedNodeMetric, WatchedPod
from dra.engine.reservations.reservation_cache import is_reservation_or_pending_pod, is_reservation_pod, trim_pod
from dra.engine.translation import template_names
from dra.engine.translation.notices import UNBOUND_CLASSES, has_notices
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.resources import (
    CLAIMS,
    CONFIG_MAPS,
    NAMESPACES,
    NODE_METRICS,
    NODES,
    PODS,
    RESERVATIONS,
    SLICES,
    TEMPLATES,
)
from dra.kube.shared_informers import SharedInformers
from dra.model.claims import WatchedClaim
from dra.model.koordinator_classes import LABEL_QOS_CLASS
from dra.model.meta import PartialObjectMetadata, UnstructuredObject
from dra.model.node_pods import AgentNode, ConfigMap
from dra.model.nodes import Node
from dra.model.pods import Pod
from dra.model.scheduling import SchedulerPod
from dra.model.slices import ResourceSlice, ResourceSliceTaints
from dra.model.templates import ResourceClaimTemplate, WatchedTemplate
from dra.model.watched_pods import WatchedPods

CARD_SLICES: Final = Selection(fields=f"spec.driver={GPU_DRIVER}")
ENABLED_NAMESPACES: Final = Selection(labels=f"{LABEL_ENABLED}={ENABLED}")
SLO_CONFIGURATION: Final = Selection(namespace=CONFIG_MAP_NAMESPACE, fields=f"metadata.name={CONFIG_MAP_NAME}")
NOTICED_PODS: Final = Selection(labels=f"{LABEL_QOS_CLASS},{LABEL_QOS_CLASS} notin ({','.join(UNBOUND_CLASSES)})")
"""Pods of the QoS classes that are never bound to CPUs are most pods of a cluster, and are not sent at all."""


class ControllerInformers(SharedInformers):
    """The informers of the controller.

    Before any loop acts, the application waits for nodes, claims and pods, in this order: a pod without its claim in
    the cache looks like one whose claim is missing.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        generates_claims: bool = True,
        placeholders: PlaceholderMode = PlaceholderMode.REPLACED,
    ) -> None:
        """Create the informers; without ``generates_claims``, only templates of translated requests are kept.

        All pending pods are kept only where placeholders yield to them.
        """
        super().__init__(client, clock=clock)
        self.nodes = self.informer(NODES, Node)
        self.claims = self.informer(CLAIMS, WatchedClaim)
        self.pods = self.informer(PODS, Pod, keep=concerns_claims, prepare=WatchedPods(intern).trim)
        self.templates = self.informer(
            TEMPLATES, WatchedTemplate, keep=None if generates_claims else _is_named_after_a_request
        )
        self.slice_taints = self.informer(SLICES, ResourceSliceTaints)
        self.card_slices = self.informer(SLICES, ResourceSlice, selection=CARD_SLICES)
        self.enabled_namespaces = self.informer(NAMESPACES, PartialObjectMetadata, selection=ENABLED_NAMESPACES)
        self.noticed_pods = self.informer(PODS, PartialObjectMetadata, selection=NOTICED_PODS, keep=has_notices)
        self.reservations = self.informer(RESERVATIONS, UnstructuredObject)
        yields = placeholders is PlaceholderMode.YIELDING
        self.scheduler_pods = self.informer(
            PODS, SchedulerPod, keep=is_reservation_or_pending_pod if yields else is_reservation_pod, prepare=trim_pod
        )
        self.slo_configuration = self.informer(CONFIG_MAPS, ConfigMap, selection=SLO_CONFIGURATION)
        self.colocation_nodes = self.informer(NODES, AgentNode, prepare=watched.trim_node)
        self.bound_pods = self.informer(PODS, WatchedPod, keep=watched.counts, prepare=_trim_bound_pod)
        self.node_metrics = self.informer(NODE_METRICS, WatchedNodeMetric, prepare=_trim_metric)


def _trim_bound_pod(pod: WatchedPod) -> None:
    watched.trim_pod(pod, share=intern)


def _trim_metric(metric: WatchedNodeMetric) -> None:
    watched.trim_metric(metric, share=intern)


def _is_named_after_a_request(template: ResourceClaimTemplate) -> bool:
    return template_names.parse(template.metadata.name) is not None
