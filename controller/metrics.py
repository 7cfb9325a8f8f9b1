"""The Prometheus metrics of the controller: closed label sets, no names of pods or claims.

Two gauges have names of namespaces, workloads and classes, of a limited number of them.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Literal

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller.leader_metrics import LeaderMetrics
from dra.engine.claims.actions import SetReservedFor
from dra.engine.claims.codes import Code
from dra.engine.claims.device_counts import DeviceCounts, HeldBy
from dra.engine.claims.generation.claim_owners import ClaimOwnerKind
from dra.engine.claims.view import ClaimView
from dra.engine.claims.window import UNLISTED
from dra.engine.device_usage.groups import DeviceNumbers, UsageGroup
from dra.engine.device_usage.history import HELD_METRIC, LABELS, USED_METRIC
from dra.engine.devices.taints import TaintSource
from dra.engine.instants import Instant
from dra.engine.prepare_refusals.reasons import PrepareRefusalReason
from dra.model.claims import EXTENDED_RESOURCE_CLAIM, POD_CLAIM_NAME, ResourceClaim
from dra.model.references import POD_GROUPS
from dra.model.templates import requests_admin_access

_WAIT_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)
_COST_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5)


class ClaimCollector(Collector):
    """A collector of claim counts, with kube-controller-manager's names and labels of 1.37, and of 1.36 and before."""

    NAMES: Final = ("dynamic_resource_allocation_resource_claims", "resourceclaim_controller_resource_claims")

    def __init__(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        self._claims = claims

    def collect(self) -> Iterator[Metric]:
        """Count the claims at each scrape: half a millisecond per thousand claims."""
        claims = collections.Counter(
            (
                _boolean_label(claim.status.allocation is not None),
                _boolean_label(requests_admin_access(claim.spec.devices)),
                _claim_source(claim),
            )
            for claim in self._claims()
        )
        for name, versions in zip(self.NAMES, ("1.37", "1.36 and before"), strict=True):
            family = GaugeMetricFamily(
                name,
                "Claims by allocation, adminAccess and source (resource_claim_template, extended_resource, or by "
                f"hand); named and labelled as by kube-controller-manager {versions}",
                labels=["allocated", "admin_access", "source"],
            )
            for labels, count in sorted(claims.items()):
                family.add_metric(list(labels), count)
            yield family


class DeviceCollector(Collector):
    """A collector of device counts by holder, and of pods by stage."""

    def __init__(self, count: Callable[[], DeviceCounts | None]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """Count devices and pods at each scrape."""
        held = GaugeMetricFamily(
            "dra_reserve_devices_held",
            "Devices that claims have, by what holds them: pods, waiting (pods that are not bound yet), workload "
            "(reserved, no pods), others (entries of other controllers or of lost nodes), nothing (for long: a leak)",
            labels=["driver", "held_by"],
        )
        offered = GaugeMetricFamily(
            "dra_reserve_devices_offered",
            "Devices in ResourceSlices; absent without the right to read ResourceSlices",
            labels=["driver"],
        )
        incomplete = GaugeMetricFamily(
            "dra_reserve_devices_in_incomplete_pools",
            "Devices that cannot be allocated, since ResourceSlices of their pool are missing; for long: a driver that "
            "died between two slices",
            labels=["driver"],
        )
        pods = GaugeMetricFamily(
            "dra_reserve_pods", "Unfinished pods with claims, by stage; waiting pods are not bound", labels=["stage"]
        )
        counts = self._count()
        if counts is not None:
            drivers = counts.offered.keys() | {driver for driver, _ in counts.held}
            for driver in sorted(drivers):
                for holder in HeldBy:
                    held.add_metric([driver, holder.value], counts.held.get((driver, holder), 0))
            for driver, number in sorted(counts.offered.items()):
                offered.add_metric([driver], number)
            for driver, number in sorted(counts.incomplete.items()):
                incomplete.add_metric([driver], number)
            for stage, number in counts.pods.items():
                pods.add_metric([stage], number)
        yield from (held, offered, incomplete, pods)


class WorkloadDeviceCollector(Collector):
    """A collector of device counts by namespace, workload and class, from which the history of use is made."""

    def __init__(self, count: Callable[[], Mapping[UsageGroup, DeviceNumbers]]) -> None:
        self._count = count

    def collect(self) -> Iterator[Metric]:
        """Report the devices as they were counted before the scrape."""
        held = GaugeMetricFamily(
            HELD_METRIC,
            "Devices that claims have, by namespace and workload of the claim and class of the request; the 200 "
            "largest groups, 20 of a namespace, and the rest as <other>",
            labels=LABELS,
        )
        used = GaugeMetricFamily(
            USED_METRIC,
            "Of these, devices whose claims pods use, without GPUs that compute nothing by the NodeMetric of their "
            "node",
            labels=LABELS,
        )
        for group, numbers in sorted(self._count().items()):
            held.add_metric(group, numbers.held)
            used.add_metric(group, numbers.used)
        yield from (held, used)


def _boolean_label(truth: bool) -> str:  # noqa: FBT001 - the value is the subject
    return "true" if truth else "false"


def _claim_source(claim: ResourceClaim) -> str:
    if claim.metadata.annotation(EXTENDED_RESOURCE_CLAIM) == "true":
        return "extended_resource"
    return "resource_claim_template" if claim.metadata.annotation(POD_CLAIM_NAME) else ""


class RefusedClaimCollector(Collector):
    """A collector of the number of claims that drivers keep refusing, by reason."""

    def __init__(self, overdue: Callable[[], Iterable[PrepareRefusalReason]]) -> None:
        self._overdue = overdue

    def collect(self) -> Iterator[Metric]:
        """Count the claims at each scrape."""
        family = GaugeMetricFamily(
            "dra_reserve_claims_refused",
            "Allocated claims that the driver of their node has refused to prepare for at least 30 s, by reason",
            labels=["reason"],
        )
        overdue = collections.Counter(self._overdue())
        for reason in PrepareRefusalReason:
            family.add_metric([reason.value], overdue[reason])
        yield family


class ControllerMetrics(LeaderMetrics):
    """All metrics of one controller, in a registry of their own: tests start several controllers in one process."""

    def __init__(self) -> None:
        super().__init__(leading="dra_reserve_leading", acts="is the leader")
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.claim_writes = counter(
            "dra_reserve_claim_writes", "Successful writes of claims, by kind of write", ["write"]
        )
        self.conflicts = counter("dra_reserve_claim_conflicts", "Writes of claims that failed with a conflict")
        self.ungated = counter("dra_reserve_pods_ungated", "Pods whose scheduling gate was removed")
        self.resynced = counter(
            "dra_reserve_pods_kicked",
            "Bound pods listed after their kubelet had checked, and updated so that the kubelet checks again",
        )
        self.evicted = counter(
            "dra_reserve_pods_evicted",
            "Unlisted pods deleted because of a device taint, by origin of the taint",
            ["source"],
        )
        self.evicted_unprepared = counter(
            "dra_reserve_unprepared_pods_evicted",
            "Pods evicted because the driver of their node refused their claim, by reason",
            ["reason"],
        )
        self.reasons = counter(
            "dra_reserve_reasons",
            "Reasons reported in Events; kubectl dra explain reason NAME describes each reason",
            ["reason"],
        )
        self.listing = histogram(
            "dra_reserve_pod_listing_seconds",
            "Seconds from the first observation of a pod with its allocated claim to the pod's first "
            "entry, by whether the list had room",
            ["room"],
            buckets=_WAIT_BUCKETS,
        )
        self.creations = counter(
            "dynamic_resource_allocation_resourceclaim_creates",
            "Creations of claims from templates; named and labelled as by kube-controller-manager 1.37",
            ["status", "admin_access", "owner_api_group", "owner_api_kind"],
        )
        self.legacy_creations = counter(
            "resourceclaim_controller_creates",
            "Creations of claims from templates; named and labelled as by kube-controller-manager 1.36 and before",
            ["status", "admin_access"],
        )
        self.decision = histogram(
            "dra_reserve_decision_seconds", "Seconds of computation for one decision", buckets=_COST_BUCKETS
        )
        self.queue = gauge("dra_reserve_queue_length", "Claims in the work queue, due now or later")
        self.idle_claims = gauge(
            "dra_reserve_claims_idle",
            "Claims that have held devices without use for idleClaimHours; 0 without idleClaimHours",
        )
        for code in Code:
            self.reasons.labels(code.value)
        for source in TaintSource:
            self.evicted.labels(source.value)
        for reason in PrepareRefusalReason:
            self.evicted_unprepared.labels(reason.value)

    def created(self, status: Literal["success", "failure"], *, admin_access: bool, owner: ClaimOwnerKind) -> None:
        """Count one creation of a claim from a template for a pod or PodGroup."""
        admin = _boolean_label(admin_access)
        group = POD_GROUPS.group if owner is ClaimOwnerKind.POD_GROUP else ""
        self.creations.labels(status, admin, group, owner.value).inc()
        self.legacy_creations.labels(status, admin).inc()

    def count_claims(self, claims: Callable[[], Iterable[ResourceClaim]]) -> None:
        """Export the number of claims at each scrape."""
        self.registry.register(ClaimCollector(claims))

    def count_refused_claims(self, overdue: Callable[[], Iterable[PrepareRefusalReason]]) -> None:
        """Export the number of claims that drivers keep refusing at each scrape."""
        self.registry.register(RefusedClaimCollector(overdue))

    def count_devices(self, count: Callable[[], DeviceCounts | None]) -> None:
        """Export the number of held devices by holder at each scrape; nothing while the count is None."""
        self.registry.register(DeviceCollector(count))

    def count_workload_devices(self, count: Callable[[], Mapping[UsageGroup, DeviceNumbers]]) -> None:
        """Export the numbers of held and used devices by namespace, workload and class, as counted last."""
        self.registry.register(WorkloadDeviceCollector(count))

    def observe_listed(self, view: ClaimView, write: SetReservedFor, *, now: Instant) -> None:
        """Measure how long the pods that a write lists for the first time have waited for it."""
        new = {entry.uid for entry in write.entries} - view.listed
        full_at, allocated_at = view.history.nearly_full_at, view.history.allocated_at
        for consumer in (*view.gated, *view.waiting, *view.starting):
            if consumer.uid not in new or view.entry_histories.get(consumer.uid, UNLISTED).seen:
                continue
            since = consumer.first_seen if allocated_at is None else max(consumer.first_seen, allocated_at)
            room = "free" if full_at is None or full_at < since else "full"
            self.listing.labels(room).observe(now - since)
