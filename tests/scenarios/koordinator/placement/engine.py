"""The engine in the place of API server, controllers and kube-scheduler: translation, templates and the allocator.

Of several machines that take a pod, the first is chosen: which one is a matter of kube-scheduler's score.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dra.engine.allocator import (
    AllocationFailure,
    ConsumedCapacityCollection,
    ResourceSliceTracker,
    allocate,
    allocation_results,
    claim_to_allocate,
)
from dra.engine.devices.ledger import Holder, Ledger, allocated_devices
from dra.engine.translation import template_names
from dra.engine.translation.templates import template_manifest
from dra.engine.translation.translated_pods import translate, translated_pod
from dra.model import quantities
from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.meta import Uid
from dra.model.slices import ResourceSlice
from tests.scenarios.koordinator.placement import manifests
from tests.scenarios.koordinator.placement.drivers import Drivers, device_classes
from tests.scenarios.koordinator.placement.outcomes import REFUSED, Outcome, Record
from tests.scenarios.koordinator.placement.sets import CARD_SIZES, VENDOR

if TYPE_CHECKING:
    from dra.model.claims import AllocationResult
    from tests.scenarios.koordinator.placement.sets import PlacementSet

Json = dict[str, Any]

NAMESPACE: Final = "placement"
SIZES: Final = tuple(size * manifests.MEBI for size in CARD_SIZES)
CLASSES: Final = {each["metadata"]["name"]: msgspec.convert(each, DeviceClass) for each in device_classes()}


def admit(pod: Json) -> tuple[Json, list[Json]] | Outcome:
    """Return the translated pod and the templates that it names, or the outcome if it is refused."""
    found = translate(pod)
    if found.refusals:
        return Outcome(why=REFUSED + "; ".join(f"{each.path}: {each.text}" for each in found.refusals))
    templates = [
        template_manifest(template_names.name_of(each.request), NAMESPACE, each.request, card_sizes=SIZES)
        for each in found.entries
    ]
    return translated_pod(pod, found.entries), [each for each in templates if each is not None]


def play(made: PlacementSet) -> Record:
    """Return what the engine makes of a set."""
    cluster = _Cluster(made)
    record = Record(set=made.number, digest=made.digest, outcomes={})
    for step, wanted in enumerate(made.steps):
        if isinstance(wanted, int):
            cluster.delete(made.pod(wanted))
        else:
            record.outcomes[step] = cluster.create(manifests.pod(made, step, scheduler="default-scheduler"))
    return record


class _Cluster:
    def __init__(self, made: PlacementSet) -> None:
        self._nodes: Final = [Drivers(made, number) for number in range(len(made.machines))]
        allocatable = [manifests.node(made, number)["status"]["allocatable"] for number in range(len(made.machines))]
        self._free: Final = [quantities.parse(each["cpu"]) for each in allocatable]
        self._tracker: Final = ResourceSliceTracker()
        self._ledger: Final = Ledger()
        self._consumed: Final = ConsumedCapacityCollection()
        self._placed: Final[dict[str, tuple[int, list[Uid], Any]]] = {}
        for node in self._nodes:
            self._publish(node)

    def _publish(self, node: Drivers) -> None:
        for each in node.slices():
            self._tracker.observe(msgspec.convert(each, ResourceSlice))

    def create(self, pod: Json) -> Outcome:
        admitted = admit(pod)
        if isinstance(admitted, Outcome):
            return admitted
        translated, templates = admitted
        name = pod["metadata"]["name"]
        specs = [each["spec"]["spec"] for each in templates] + _whole_cards(translated)
        claims = [_claim(f"{name}-{index}", spec) for index, spec in enumerate(specs)]
        wanted = [claim_to_allocate(each, CLASSES) for each in claims]
        cpus = sum(
            quantities.parse(each.get("resources", {}).get("requests", {}).get("cpu", "0"))
            for each in translated["spec"]["containers"]
        )
        why = "Insufficient cpu"
        for number, node in enumerate(self._nodes):
            if cpus > self._free[number]:
                continue
            devices = self._tracker.node_devices(node.node, {})
            found = allocate(wanted, node_devices=devices, ledger=self._ledger, consumed_capacity=self._consumed)
            if isinstance(found, AllocationFailure):
                why = found.text
                continue
            shares = iter(f"{name}-share-{index}" for index in range(100))
            made = allocation_results(wanted, found, node=node.node, share_id=lambda: next(shares))  # noqa: B023
            allocations = {each.metadata.uid: allocation for each, allocation in zip(claims, made, strict=True)}
            self._hold(name, allocations)
            self._free[number] -= cpus
            self._placed[name] = (number, list(allocations), cpus)
            outcome = node.prepare(name, allocations)
            self._publish(node)
            return outcome
        return Outcome(why=why)

    def _hold(self, name: str, allocations: dict[Uid, AllocationResult]) -> None:
        for uid, allocation in allocations.items():
            self._ledger.hold(Holder(kind="claim", key=(NAMESPACE, name), uid=uid), allocated_devices(allocation))
            self._consumed.observe_allocation(uid, allocation)

    def delete(self, name: str) -> None:
        if name not in self._placed:
            return
        number, uids, cpus = self._placed.pop(name)
        for uid in uids:
            self._ledger.release(uid)
            self._consumed.observe_allocation(uid, None)
        self._free[number] += cpus
        self._nodes[number].release(name)
        self._publish(self._nodes[number])


def _claim(name: str, spec: Json) -> ResourceClaim:
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": deepcopy(spec),
    }
    return msgspec.convert(body, ResourceClaim)


def _whole_cards(pod: Json) -> list[Json]:
    """Return the spec of the claim that kube-scheduler makes for whole cards by their vendor's name."""
    counts = [each.get("resources", {}).get("limits", {}).get(VENDOR) for each in pod["spec"]["containers"]]
    requests = [
        {"name": f"container-{index}-request-0", "exactly": {"deviceClassName": "gpu.reserve.dra", "count": int(count)}}
        for index, count in enumerate(counts)
        if count
    ]
    return [{"devices": {"requests": requests}}] if requests else []
