"""Nodes with cards, and pods with claims of them."""

import msgspec

from dra.model.claims import ResourceClaim
from dra.model.device_classes import DeviceClass
from dra.model.slices import ResourceSlice
from dra.model.templates import ResourceClaimTemplate
from tests.dra.engine.descheduling.clusters import pod

DRIVER = "gpu.example.com"
CLASSES = (
    msgspec.convert(
        {
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        },
        DeviceClass,
    ),
)


def cards(node, count, *, model="h100"):
    """Return the slice of a node with so many cards."""
    devices = [{"name": f"gpu-{i}", "attributes": {"model": {"string": model}}} for i in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return msgspec.convert({"metadata": {"name": f"slice-{node}"}, "spec": spec}, ResourceSlice)


def request(count, model=""):
    """Return ``spec.devices`` for so many cards; None: all of a node."""
    amount = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}] if model else []
    return {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": selectors, **amount}}]}


def claim(name, count=1, *, on="", devices=(), of=None, holder=None, model=""):
    """Return a claim; with cards `devices` of node `on` if it is allocated, made for pod `of` if that is given."""
    owners = []
    if of is not None or holder is not None:
        kind, uid = ("Pod", of.metadata.uid) if of is not None else ("Reservation", holder)
        version = "v1" if of is not None else "scheduling.koordinator.sh/v1alpha1"
        owners = [{"apiVersion": version, "kind": kind, "name": "o", "uid": uid, "controller": True}]
    status = {}
    if devices:
        results = [{"request": "r", "driver": DRIVER, "pool": on, "device": f"gpu-{i}"} for i in devices]
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status = {"allocation": {"devices": {"results": results}, "nodeSelector": terms}}
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": owners}
    content = {"metadata": meta, "spec": {"devices": request(count, model)}, "status": status}
    return msgspec.convert(content, ResourceClaim)


def template(name, count=1, model=""):
    """Return a template for claims of so many cards."""
    meta = {"name": name, "namespace": "ns"}
    return msgspec.convert(
        {"metadata": meta, "spec": {"spec": {"devices": request(count, model)}}}, ResourceClaimTemplate
    )


def gpu_pod(name, on="", devices=(), *, count=None, model="", **fields):
    """Return a pod with a claim from a template, and the claim; a pod with a node holds these cards there."""
    wanted = len(devices) or count
    status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": f"{name}-gpus"}]}
    if not on:
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status["conditions"] = [unschedulable | {"lastTransitionTime": "2026-11-24T11:00:00Z"}]
    entries = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    given = pod(name, on, resourceClaims=entries, status=status | fields.pop("status", {}), **fields)
    return given, claim(f"{name}-gpus", wanted, on=on, devices=devices, of=given, model=model)
