"""A namespace as text that is the same on two servers if the controllers did the same.

Uids become roles ("pod web no. 2"), random parts of names become numbers in the order of creation, times go. Of pods,
what the controllers under test may touch is left: the status, and who wrote the part of it that names generated claims;
our annotation that makes a kubelet look again is not. Of events, stock's only reason is left: ours has more to say, by
design (dra/engine/claims/reasons.py).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios.features import Feature, kubernetes_version
from tests.scenarios.resources import CLAIMS, EVENTS, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.scenarios.differential.mirror import Sight

Json = dict[str, Any]

STOCK_EVENTS: Final = frozenset({"FailedResourceClaimCreation"})

_TIMES: Final = frozenset(
    {"creationTimestamp", "deletionTimestamp", "lastTransitionTime", "lastProbeTime", "startTime", "lastUpdateTime"}
)
_SERVERS_OWN: Final = frozenset({"uid", "resourceVersion", "managedFields", "namespace", "generation"})


def observe(sight: Sight, namespace: str) -> str:
    """Return what there is, one fact a line."""
    roles = _roles(sight) | {namespace: "NAMESPACE"}
    claims = [_sorted_lists(_claim(claim)) for claim in sight.of(CLAIMS)]
    pods = [_sorted_lists(_pod(pod)) for pod in sight.of(PODS)]
    everything = {
        "claims": sorted((_replaced(claim, roles) for claim in claims), key=_name),
        "pods": sorted((_replaced(pod, roles) for pod in pods), key=_name),
        "events": sorted({json.dumps(_replaced(event, roles)) for event in _events(sight)}),
    }
    return json.dumps(everything, indent=1, sort_keys=True)


def _roles(sight: Sight) -> dict[str, str]:
    """Return a stable word for each uid and each generated name."""
    roles: dict[str, str] = {}
    present = {obj["metadata"]["uid"] for resource in (PODS, CLAIMS) for obj in sight.of(resource)}
    met = Counter[str]()
    for uid, obj in sight.ever.items():
        meta = obj["metadata"]
        called = f"{'pod' if 'containers' in obj['spec'] else 'claim'} {meta['name']}"
        if "generateName" not in meta:
            met[called] += 1
            roles[uid] = f"{called} no. {met[called]}"
            continue
        if uid in present:
            met[meta["generateName"]] += 1
            roles[meta["name"]] = f"{meta['generateName']}<{met[meta['generateName']]}>"
        else:
            roles[meta["name"]] = f"{meta['generateName']}<gone>"
        roles[uid] = f"claim {roles[meta['name']]}"
    return roles


def _replaced(value: Any, roles: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(each, roles) for key, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, roles) for each in value]
    if isinstance(value, str):
        if value in roles:
            return roles[value]
        for word, role in roles.items():
            if word in value:
                value = value.replace(word, role)
    return value


def _claim(claim: Json) -> Json:
    meta = _metadata(claim)
    if not Feature.UNBLOCKING_CLAIMS.among(kubernetes_version()):
        owners = [
            {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
            for owner in meta.get("ownerReferences", ())
        ]
        meta |= {"ownerReferences": owners} if owners else {}
    return {"metadata": meta, "spec": claim["spec"], "status": claim.get("status", {})}


def _pod(pod: Json) -> Json:
    meta = {key: value for key, value in _metadata(pod).items() if key != "annotations"}
    status = {"managers of claim statuses": _managers(pod), **_timeless(pod["status"])}
    return {"metadata": meta, "node": pod["spec"].get("nodeName", ""), "status": status}


def _metadata(obj: Json) -> Json:
    meta = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS_OWN | _TIMES}
    return meta | ({"deleted": True} if "deletionTimestamp" in obj["metadata"] else {})


def _managers(pod: Json) -> list[str]:
    """Return who owns status.resourceClaimStatuses: stock applies it, and so must who takes over from it."""
    return sorted(
        f"{each['manager']} {each['operation']}"
        for each in pod["metadata"].get("managedFields", ())
        if "f:resourceClaimStatuses" in each.get("fieldsV1", {}).get("f:status", {})
    )


def _events(sight: Sight) -> Iterable[Json]:
    for event in sight.of(EVENTS):
        if event["reason"] in STOCK_EVENTS:
            about = {key: event["involvedObject"].get(key) for key in ("kind", "name", "uid", "apiVersion")}
            yield {"type": event["type"], "reason": event["reason"], "about": about, "message": event["message"]}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _TIMES}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _sorted_lists(value: Any) -> Any:
    """Sort what the API understands as sets or maps: here, every list."""
    if isinstance(value, dict):
        return {key: _sorted_lists(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted_lists(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def _name(obj: Json) -> str:
    name: str = obj["metadata"]["name"]
    return name
