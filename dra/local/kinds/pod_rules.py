"""What is wrong with a pod, or with the template of one.

What matters for scheduling, claims and containers is checked as upstream does; security contexts, ports and the sources
of volumes are stored as they come.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dra.local.kinds import causes, names, node_selectors
from dra.local.objects import Object
from dra.local.refusals import Cause
from dra.model.quantities import MalformedQuantityError, parse

_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL: Final = ("Always", "IfNotPresent", "Never")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists")

_HIGHEST_PORT: Final = 65535

CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with the spec of a pod."""
    claims = spec.get("resourceClaims") or []
    found = _volumes(f"{path}.volumes", spec)
    found += _containers(path, spec)
    for name, known in (("restartPolicy", _RESTART), ("dnsPolicy", _DNS)):
        found += causes.one_of(f"{path}.{name}", spec.get(name, ""), known)
    found += _seconds(path, spec)
    for name, check in (
        ("nodeName", names.subdomain),
        ("serviceAccountName", names.subdomain),
        ("priorityClassName", names.subdomain),
        ("hostname", names.label),
        ("subdomain", names.label),
        ("schedulerName", names.key),
    ):
        if spec.get(name):
            found += causes.texts(f"{path}.{name}", spec[name], check(spec[name]))
    for key, value in (spec.get("nodeSelector") or {}).items():
        found += causes.texts(f"{path}.nodeSelector", key, names.key(key))
        found += causes.texts(f"{path}.nodeSelector", value, names.label_value(value))
    found += _affinity(f"{path}.affinity.nodeAffinity", (spec.get("affinity") or {}).get("nodeAffinity") or {})
    found += causes.each(f"{path}.tolerations", spec.get("tolerations") or [], _toleration)
    found += _gates(f"{path}.schedulingGates", spec.get("schedulingGates") or [])
    found += causes.each(f"{path}.resourceClaims", claims, _claim)
    return found + causes.unique(f"{path}.resourceClaims", claims, lambda each: each.get("name", ""), suffix=".name")


def validate_update(new: Object, old: Object) -> list[Cause]:
    """Return what is wrong with a change of the spec of a pod: hardly anything may change."""
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            return [causes.forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
    found = _deadline(spec, before) + _tolerations(spec, before) + _fewer_gates(spec, before)
    same = _unchanged(spec, before)
    if before.get("schedulingGates"):
        found += _narrowed(spec, before)
        for name in ("nodeSelector", "affinity"):
            same.pop(name, None)
            if name in before:
                same[name] = before[name]
    changed = sorted(name for name in {*same, *before} if same.get(name) != before.get(name))
    if changed:
        difference = "\n".join(
            f"- {name}: {causes.shown(before.get(name))}\n+ {name}: {causes.shown(same.get(name))}" for name in changed
        )
        found.append(causes.forbidden("spec", f"{CHANGEABLE}\n{difference}"))
    return found


def claim_statuses(pod: Object) -> list[Cause]:
    """Return what is wrong with what the status says of the claims of a pod."""
    known = {each.get("name") for each in pod["spec"].get("resourceClaims") or ()}
    path, statuses = "status.resourceClaimStatuses", (pod.get("status") or {}).get("resourceClaimStatuses") or []
    found = []
    for index, status in enumerate(statuses):
        name, claim = status.get("name", ""), status.get("resourceClaimName")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            found.append(causes.invalid(f"{path}[{index}].name", name, detail))
        if claim is not None:
            found += causes.texts(f"{path}[{index}].resourceClaimName", claim, names.subdomain(claim))
    return found + causes.unique(path, statuses, lambda each: each.get("name", ""), suffix=".name")


def _volumes(path: str, spec: Object) -> list[Cause]:
    volumes = spec.get("volumes") or []
    found = causes.each(path, volumes, lambda at, each: _label(f"{at}.name", each.get("name", "")))
    return found + causes.unique(path, volumes, lambda each: each.get("name", ""), suffix=".name")


def _label(path: str, name: str) -> list[Cause]:
    return causes.texts(path, name, names.label(name)) if name else [causes.required(path)]


def _containers(path: str, spec: Object) -> list[Cause]:
    listed = spec.get("containers") or []
    if not listed:
        return [causes.required(f"{path}.containers")]
    check = _container_of(spec)
    found = causes.each(f"{path}.containers", listed, check)
    found += causes.unique(f"{path}.containers", listed, lambda each: each.get("name", ""), suffix=".name")
    first = spec.get("initContainers") or []
    found += causes.each(f"{path}.initContainers", first, check)
    taken = {each.get("name") for each in listed}
    for index, each in enumerate(first):
        if each.get("name") in taken:
            found.append(causes.duplicate(f"{path}.initContainers[{index}].name", each["name"]))
        taken.add(each.get("name"))
    return found


def _container_of(spec: Object) -> Callable[[str, Any], list[Cause]]:
    volumes = {each.get("name") for each in spec.get("volumes") or ()}
    claims = [each.get("name", "") for each in spec.get("resourceClaims") or ()]

    def check(path: str, container: Object) -> list[Cause]:
        found = _label(f"{path}.name", container.get("name", ""))
        image = container.get("image", "")
        if not image:
            found.append(causes.required(f"{path}.image"))
        elif image.strip() != image:
            detail = "must not have leading or trailing whitespace"
            found.append(causes.invalid(f"{path}.image", image, detail))
        found += causes.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL)
        for index, each in enumerate(container.get("env") or ()):
            name = each.get("name", "")
            at = f"{path}.env[{index}].name"
            found += causes.texts(at, name, names.env_name(name)) if name else [causes.required(at)]
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount.get("name") not in volumes:
                found.append(causes.not_found(f"{path}.volumeMounts[{index}].name", mount.get("name", "")))
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            found += _probe(f"{path}.{name}", container.get(name) or {})
        return found + _resources(f"{path}.resources", container.get("resources") or {}, claims)

    return check


def _probe(path: str, probe: Object) -> list[Cause]:
    found = []
    for name in ("httpGet", "tcpSocket"):
        if (handler := probe.get(name)) is not None:
            port = handler.get("port", 0)
            at = f"{path}.{name}.port"
            if isinstance(port, int):
                if not 1 <= port <= _HIGHEST_PORT:
                    detail = f"must be between 1 and {_HIGHEST_PORT}, inclusive"
                    found.append(causes.invalid(at, port, detail))
            else:
                found += causes.texts(at, port, names.port(port))
    return found


def _resources(path: str, resources: Object, claims: Sequence[str]) -> list[Cause]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    found = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            at = f"{path}.{part}[{name}]"
            try:
                if parse(amount) < 0:
                    found.append(causes.invalid(at, str(amount), "must be greater than or equal to 0"))
            except MalformedQuantityError:
                detail = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                found.append(causes.invalid(at, str(amount), detail))
    if not found:
        for name, amount in sorted(requests.items()):
            if name in limits and parse(amount) > parse(limits[name]):
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                found.append(causes.invalid(f"{path}.requests", str(amount), detail))
    return found + _claims_of_container(f"{path}.claims", resources.get("claims") or [], claims)


def _claims_of_container(path: str, used: list[Object], claims: Sequence[str]) -> list[Cause]:
    found = []
    seen: set[str] = set()
    for index, each in enumerate(used):
        at, name, request = f"{path}[{index}]", each.get("name", ""), each.get("request", "")
        if not name:
            found.append(causes.required(at))
            continue
        key = f"{name}/{request}" if request else name
        whole_and_part = name in seen if request else any(other.startswith(f"{name}/") for other in seen)
        if request and name not in seen:
            found += causes.texts(f"{at}.request", request, names.label(request))
        if key in seen or whole_and_part:
            found.append(causes.duplicate(at, name if name in seen or not request else key))
        seen.add(key)
        if name not in claims:
            known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            cause = causes.not_found(at, name)
            detail = f"{cause.message}: must be one of the names in pod.spec.resourceClaims{known}"
            found.append(Cause(cause.fault, cause.field, detail))
    return found


def _seconds(path: str, spec: Object) -> list[Cause]:
    grace, deadline = spec.get("terminationGracePeriodSeconds"), spec.get("activeDeadlineSeconds")
    found = []
    if grace is not None and grace < 0:
        found.append(
            causes.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
        )
    if deadline is not None and not 1 <= deadline < 1 << 31:
        detail = f"must be between 1 and {(1 << 31) - 1}, inclusive"
        found.append(causes.invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    return found


def _affinity(path: str, affinity: Object) -> list[Cause]:
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    found = [] if wanted is None else node_selectors.validate(at, wanted)
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, each in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        if not 1 <= each.get("weight", 0) <= 100:  # noqa: PLR2004 - upstream's
            found.append(causes.invalid(f"{at}[{index}].weight", each.get("weight", 0), "must be in the range 1-100"))
        found += node_selectors.term(f"{at}[{index}].preference", each.get("preference") or {})
    return found


def _toleration(path: str, toleration: Object) -> list[Cause]:
    key, operator, value, effect = (toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
    found = causes.texts(f"{path}.key", key, names.key(key)) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        found.append(causes.invalid(f"{path}.operator", operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(causes.invalid(f"{path}.effect", effect, detail))
    if operator in ("", "Equal"):
        if faults := names.label_value(value):
            found.append(causes.invalid(f"{path}.operator", value, ";".join(faults)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            found.append(causes.invalid(f"{path}.operator", value, detail))
    else:
        found.append(causes.unsupported(f"{path}.operator", operator, _OPERATORS))
    return found + (causes.one_of(f"{path}.effect", effect, _EFFECTS) if effect else [])


def _gates(path: str, gates: list[Object]) -> list[Cause]:
    def check(at: str, gate: Object) -> list[Cause]:
        return causes.texts(at, gate.get("name", ""), names.key(gate.get("name", "")))

    return causes.each(path, gates, check) + causes.unique(path, gates, lambda each: each.get("name", ""))


def _claim(path: str, claim: Object) -> list[Cause]:
    found = _label(f"{path}.name", claim.get("name", ""))
    given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name) is not None]
    if len(given) != 1:
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if given
            else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
        go = {
            "Name": claim.get("name", ""),
            "ResourceClaimName": claim.get("resourceClaimName"),
            "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
        }
        found.append(causes.invalid(path, go, detail))
    for name in given:
        found += causes.texts(f"{path}.{name}", claim[name], names.subdomain(claim[name]))
    return found


def _deadline(spec: Object, before: Object) -> list[Cause]:
    path, seconds, had = (
        "spec.activeDeadlineSeconds",
        spec.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds"),
    )
    if had is not None and seconds is None:
        return [causes.invalid(path, None, "must not update from a positive integer to nil value")]
    if had is not None and seconds > had:
        return [causes.invalid(path, seconds, "must be less than or equal to previous value")]
    return []


def _tolerations(spec: Object, before: Object) -> list[Cause]:
    def lasting(toleration: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [lasting(each) for each in spec.get("tolerations") or ()]
    if all(lasting(each) in kept for each in before.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [causes.forbidden("spec.tolerations", detail)]


def _fewer_gates(spec: Object, before: Object) -> list[Cause]:
    had = {each.get("name") for each in before.get("schedulingGates") or ()}
    return [
        causes.forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{each.get('name')}'",
        )
        for index, each in enumerate(spec.get("schedulingGates") or ())
        if each.get("name") not in had
    ]


def _unchanged(spec: Object, before: Object) -> Object:
    """Return the new spec with all that may change as it was."""
    same = {**spec}
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        same.pop(name, None)
        if name in before:
            same[name] = before[name]
    for name in ("containers", "initContainers"):
        if name in same:
            pairs = zip(same[name], before[name], strict=True)
            same[name] = [{**new, "image": old.get("image")} for new, old in pairs]
    if before.get("terminationGracePeriodSeconds", 0) < 0 and same.get("terminationGracePeriodSeconds") == 1:
        same["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    return same


def _narrowed(spec: Object, before: Object) -> list[Cause]:
    """Let a gated pod become choosier about nodes, never less so."""
    selector, had = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    found = []
    if any(selector.get(key) != value for key, value in had.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        found.append(causes.invalid("spec.nodeSelector", selector, detail))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    wanted, terms = _required(spec), _required(before)
    if terms and len(wanted) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        found.append(causes.invalid(f"{path}.nodeSelectorTerms", wanted, detail))
    elif terms:
        for index, (new, old) in enumerate(zip(wanted, terms, strict=True)):
            parts = ("matchExpressions", "matchFields")
            if any(each not in (new.get(part) or []) for part in parts for each in old.get(part) or ()):
                detail = "only additions are allowed (no mutations or deletions)"
                found.append(causes.invalid(f"{path}.nodeSelectorTerms[{index}]", new, detail))
    rest, others = ({**(each.get("affinity") or {}), "nodeAffinity": None} for each in (spec, before))
    if rest != others:
        found.append(causes.forbidden("spec", f"{CHANGEABLE}\naffinity"))
    return found


def _required(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return selector.get("nodeSelectorTerms") or []
