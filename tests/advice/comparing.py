"""Whether a pasted command did harm: the objects of a cluster before and after it, as plain JSON.

Judged without the engine and without its words: what works, what belongs to whom and what a person did on purpose is
read from the objects as kubectl shows them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]
Name = tuple[str, str, str]
"""(resource, namespace, name); the resource in the plural, as in ``reservedFor``."""

State = Mapping[Name, Json]

PROTECTION: Final = "resource.kubernetes.io/delete-protection"
GATE: Final = "reserve.dra/claim"
OURS: Final = "reserve.dra"
NOTES: Final = frozenset(
    {"reserve.dra/entered-allocation", "reserve.dra/reserved-for-any-pod", "reserve.dra/force-release"}
)
"""Annotations that no person needs: of a controller of ours, and a wish that has been granted."""

REFERENCE: Final = "reserve.dra/reserved-for"
RESOLVED: Final = "reserve.dra/resolved-uid"


def harms(
    before: State, after: State, *, about: Name, asked: str, named: Container[Name] = (), consequences: bool = False
) -> Iterator[str]:
    """Yield what a command did that none may do.

    `about` is the object that the command was told about, `asked` the namespace that the question named.
    `named` are further objects that the command names: of these, too, nothing that a person did on purpose may change.
    `consequences` is whether controllers ran meanwhile, whose writes to other objects are no harm as long as nothing
    that works ends.
    """
    for name, then in before.items():
        now = after.get(name)
        yield from _ended(name, then, now, before=before)
        if name == about or now == then:
            continue
        if name in named and now is not None and name[1] == asked:
            yield from _to_the_object(before, after, name)
        elif consequences:
            yield from (f"{_label(name)}: {each}" for each in _undone(then, now))
        else:
            yield f"{_label(name)} is not what the command was about, and has changed"
    if not consequences:
        yield from (f"{_label(name)} was made" for name in after.keys() - before.keys())
    if after.get(about) != before.get(about):
        if about[1] != asked:
            yield f"{_label(about)} belongs to namespace {about[1] or '(the cluster)'}, not to whoever asked"
        yield from _to_the_object(before, after, about)


def _ended(name: Name, then: Json, now: Json | None, *, before: State) -> Iterator[str]:
    """Yield what worked and does so no more."""
    if name[0] == "pods" and works(then):
        if now is None or now["metadata"]["uid"] != then["metadata"]["uid"]:
            yield f"{_label(name)} worked, and is gone"
        elif now["metadata"].get("deletionTimestamp") and not then["metadata"].get("deletionTimestamp"):
            yield f"{_label(name)} worked, and is ended"
    if name[0] == "resourceclaims" and _used(name, before) and _lost(then, now):
        yield f"{_label(name)} was used by a pod that works, and has lost its devices"


def _label(name: Name) -> str:
    return "/".join(filter(None, name))


def works(pod: Json) -> bool:
    """Tell whether a pod does its work: it has its sandbox and has not ended."""
    phase = pod.get("status", {}).get("phase")
    ready = any(c["type"] == "PodReadyToStartContainers" and c["status"] == "True" for c in _conditions(pod))
    return phase not in {"Succeeded", "Failed"} and (ready or phase == "Running")


def _to_the_object(before: State, after: State, about: Name) -> Iterator[str]:
    """Yield the harm that was done to the object itself."""
    then, now = before.get(about), after.get(about)
    label = "/".join(about)
    if then is None:
        return
    gone = now is None or (now["metadata"].get("deletionTimestamp") and not then["metadata"].get("deletionTimestamp"))
    if (
        gone
        and about[0] == "pods"
        and not any(o.get("controller") for o in then["metadata"].get("ownerReferences", ()))
    ):
        yield f"{label} was deleted, and nothing makes it again"
    if gone and about[0] == "resourceclaims" and not then["metadata"].get("deletionTimestamp"):
        if then.get("status", {}).get("allocation"):
            yield f"{label} was deleted with its devices"
        if any(about[1:] == key for pod in _unfinished(before) for key in _claims(pod)):
            yield f"{label} was deleted, and a pod names it"
    if about[0] == "resourceclaims" and _lost(then, now):
        yield from (f"{label} was freed, and {each}" for each in _keeping(before, about))
    if now is not None:
        yield from (f"{label}: {each}" for each in _undone(then, now))


def _undone(then: Json, now: Json | None) -> Iterator[str]:
    """Yield what a person did on purpose and what is no more."""
    if now is None:
        return
    for field in ("labels", "ownerReferences"):
        if then["metadata"].get(field) != now["metadata"].get(field):
            yield f"{field} were changed"
    old, new = then["metadata"].get("annotations", {}), now["metadata"].get("annotations", {})
    for key in old.keys() | new.keys():
        if old.get(key) == new.get(key) or key in NOTES or key.startswith("reserve.dra/resolved-"):
            continue
        if key == f"{REFERENCE}-uid" and (key not in old or old[key] == old.get(RESOLVED)):
            continue  # found and written by a controller, beside its note that it has done so
        if key != REFERENCE or not _same_workload(old.get(key, ""), new.get(key, "")):
            yield f"annotation {key} was {old.get(key)!r} and is {new.get(key)!r}"
    lost = set(then["metadata"].get("finalizers", ())) - set(now["metadata"].get("finalizers", ())) - {PROTECTION}
    yield from (f"finalizer {each} was taken off" for each in lost)
    spec, changed = dict(then.get("spec", {})), dict(now.get("spec", {}))
    gates = [each["name"] for each in spec.pop("schedulingGates", ())]
    left = [each["name"] for each in changed.pop("schedulingGates", ())]
    if set(gates) - set(left) - {GATE}:
        yield "a gate of others was opened"
    bound = {"nodeName"} if "nodeName" not in spec else set()
    if {key for key in spec.keys() | changed.keys() if spec.get(key) != changed.get(key)} - bound:
        yield "its spec was changed"
    others = [e for e in then.get("status", {}).get("reservedFor", ()) if _foreign(e)]
    kept = now.get("status", {}).get("reservedFor", ())
    yield from (
        f"the entry {each['resource']}/{each['name']} of others was taken off" for each in others if each not in kept
    )


def _same_workload(old: str, new: str) -> bool:
    """Tell whether a reference was put right: the same name, of the kind that kubectl takes the old one for."""
    kind, _, name = old.partition("/")
    kind = re.sub(r"\.v[0-9]+((alpha|beta)[0-9]+)?(?=\.|$)", "", kind)  # kubectl takes a version there
    plural, _, now = new.partition("/")
    if "." in kind and kind.partition(".")[2] != plural.partition(".")[2]:
        return False  # a group that is not served is perhaps not served yet
    return bool(name) and name == now and plural.partition(".")[0].startswith(kind.partition(".")[0].rstrip("s"))


def _keeping(before: State, about: Name) -> Iterator[str]:
    """Yield who still has a claim."""
    for entry in before[about].get("status", {}).get("reservedFor", ()):
        if _foreign(entry):
            yield f"{entry['resource']}/{entry['name']} of others had it"
        found = before.get((entry["resource"], about[1], entry["name"]))
        if found is None or found["metadata"]["uid"] != entry["uid"] or entry["resource"] == "pods":
            continue
        if not any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in _conditions(found)):
            yield f"{entry['resource']}/{entry['name']}, which is not over, had it"
    for pod in _unfinished(before):
        if about[1:] in _claims(pod) and pod["spec"].get("nodeName"):
            yield f"pod {pod['metadata']['name']} is bound to it"


def _used(claim: Name, state: State) -> bool:
    return any(works(pod) and claim[1:] in _claims(pod) for pod in _unfinished(state))


def _lost(then: Json, now: Json | None) -> bool:
    allocation = then.get("status", {}).get("allocation")
    return allocation is not None and (now is None or now.get("status", {}).get("allocation") != allocation)


def _unfinished(state: State) -> Iterator[Json]:
    for name, found in state.items():
        never = found["metadata"].get("deletionTimestamp") and not found.get("spec", {}).get("nodeName")
        if name[0] == "pods" and not never and found.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
            yield found  # a pod that was deleted before it was bound never runs


def _claims(pod: Json) -> list[tuple[str, str]]:
    made = {
        each["name"]: each.get("resourceClaimName") for each in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    names = (each.get("resourceClaimName") or made.get(each["name"]) for each in pod["spec"].get("resourceClaims", ()))
    return [(pod["metadata"]["namespace"], name) for name in names if name]


def _foreign(entry: Json) -> bool:
    return entry.get("apiGroup", "") not in {"", "batch", "apps", OURS}


def _conditions(found: Json) -> list[Json]:
    return found.get("status", {}).get("conditions") or []
