"""Validates pods and pod templates.

Fields for scheduling, claims and containers are validated as upstream does; security contexts, ports and volume sources
are stored without validation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dra.model import name_validation
from dra.model.quantities import MalformedQuantityError, parse
from localplane.kinds import field_errors, node_selectors
from localplane.objects import Object
from localplane.status_errors import FieldError

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_OPERATORS: Final = ("Equal", "Exists")

_MAX_PORT: Final = 65535

FORBIDDEN_UPDATE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)

_GATED_FIELDS: Final = (
    ",`spec.schedulingGates` (only deletions of existing scheduling gates),"
    "`spec.nodeSelector` (only additions, and only while the pod has scheduling gates),"
    "`spec.affinity.nodeAffinity` (only while the pod has scheduling gates)"
)


def validate(path: str, spec: Object) -> list[FieldError]:
    """Return the errors in the spec of a pod."""
    claims = spec.get("resourceClaims") or []
    causes = _validate_volumes(f"{path}.volumes", spec)
    causes += _validate_containers(path, spec)
    for name, known in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        causes += field_errors.validate_enum(f"{path}.{name}", spec.get(name, ""), known)
    causes += _validate_durations(path, spec)
    for name, check in (
        ("nodeName", name_validation.dns1123_subdomain),
        ("serviceAccountName", name_validation.dns1123_subdomain),
        ("priorityClassName", name_validation.dns1123_subdomain),
        ("hostname", name_validation.dns1123_label),
        ("subdomain", name_validation.dns1123_label),
        ("schedulerName", name_validation.qualified_name),
    ):
        if spec.get(name):
            causes += field_errors.invalid_for_each(f"{path}.{name}", spec[name], check(spec[name]))
    for key, value in (spec.get("nodeSelector") or {}).items():
        causes += field_errors.invalid_for_each(f"{path}.nodeSelector", key, name_validation.qualified_name(key))
        causes += field_errors.invalid_for_each(f"{path}.nodeSelector", value, name_validation.label_value(value))
    causes += _validate_node_affinity(
        f"{path}.affinity.nodeAffinity", (spec.get("affinity") or {}).get("nodeAffinity") or {}
    )
    causes += field_errors.validate_items(f"{path}.tolerations", spec.get("tolerations") or [], _validate_toleration)
    causes += _validate_scheduling_gates(f"{path}.schedulingGates", spec.get("schedulingGates") or [])
    causes += field_errors.validate_items(f"{path}.resourceClaims", claims, _validate_resource_claim)
    return causes + field_errors.validate_unique(
        f"{path}.resourceClaims", claims, lambda claim: claim.get("name", ""), suffix=".name"
    )


def validate_update(new: Object, old: Object, *, names_gated_fields: bool) -> list[FieldError]:
    """Return the errors of an update of a pod's spec, of which most fields are immutable.

    `names_gated_fields`: a refusal names the fields that may change while the pod is gated, too.
    """
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    for name in ("containers", "initContainers"):
        if len(spec.get(name) or ()) != len(before.get(name) or ()):
            return [field_errors.forbidden(f"spec.{name}", "pod updates may not add or remove containers")]
    causes = (
        _validate_deadline_update(spec, before)
        + _validate_only_added_tolerations(spec, before)
        + _validate_only_deleted_gates(spec, before)
    )
    refusal = FORBIDDEN_UPDATE + (_GATED_FIELDS if names_gated_fields else "")
    same = _with_mutable_fields_reset(spec, before)
    if before.get("schedulingGates"):
        causes += _validate_gated_pod_update(spec, before, refusal=refusal)
        for name in ("nodeSelector", "affinity"):
            same.pop(name, None)
            if name in before:
                same[name] = before[name]
    changed = sorted(name for name in {*same, *before} if same.get(name) != before.get(name))
    if changed:
        difference = "\n".join(
            f"{sign} {name}: {field_errors.format_value(spec.get(name))}"
            for name in changed
            for sign, spec in (("-", before), ("+", same))
        )
        causes.append(field_errors.forbidden("spec", f"{refusal}\n{difference}"))
    return causes


def validate_resource_claim_statuses(pod: Object) -> list[FieldError]:
    """Return the errors in ``status.resourceClaimStatuses`` of a pod."""
    known = {entry.get("name") for entry in pod["spec"].get("resourceClaims") or ()}
    path, statuses = "status.resourceClaimStatuses", (pod.get("status") or {}).get("resourceClaimStatuses") or []
    causes = []
    for index, status in enumerate(statuses):
        name, claim = status.get("name", ""), status.get("resourceClaimName")
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            causes.append(field_errors.invalid(f"{path}[{index}].name", name, detail))
        if claim is not None:
            causes += field_errors.invalid_for_each(
                f"{path}[{index}].resourceClaimName", claim, name_validation.dns1123_subdomain(claim)
            )
    return causes + field_errors.validate_unique(path, statuses, lambda item: item.get("name", ""), suffix=".name")


def _validate_volumes(path: str, spec: Object) -> list[FieldError]:
    volumes = spec.get("volumes") or []
    causes = field_errors.validate_items(
        path, volumes, lambda at, volume: _validate_required_label(f"{at}.name", volume.get("name", ""))
    )
    return causes + field_errors.validate_unique(path, volumes, lambda volume: volume.get("name", ""), suffix=".name")


def _validate_required_label(path: str, name: str) -> list[FieldError]:
    return (
        field_errors.invalid_for_each(path, name, name_validation.dns1123_label(name))
        if name
        else [field_errors.required(path)]
    )


def _validate_containers(path: str, spec: Object) -> list[FieldError]:
    listed = spec.get("containers") or []
    if not listed:
        return [field_errors.required(f"{path}.containers")]
    check = _container_validator(spec)
    causes = field_errors.validate_items(f"{path}.containers", listed, check)
    causes += field_errors.validate_unique(
        f"{path}.containers", listed, lambda container: container.get("name", ""), suffix=".name"
    )
    first = spec.get("initContainers") or []
    causes += field_errors.validate_items(f"{path}.initContainers", first, check)
    taken = {container.get("name") for container in listed}
    for index, container in enumerate(first):
        if container.get("name") in taken:
            causes.append(field_errors.duplicate(f"{path}.initContainers[{index}].name", container["name"]))
        taken.add(container.get("name"))
    return causes


def _container_validator(spec: Object) -> Callable[[str, Any], list[FieldError]]:
    volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
    claims = [claim.get("name", "") for claim in spec.get("resourceClaims") or ()]

    def check(path: str, container: Object) -> list[FieldError]:
        causes = _validate_required_label(f"{path}.name", container.get("name", ""))
        image = container.get("image", "")
        if not image:
            causes.append(field_errors.required(f"{path}.image"))
        elif image.strip() != image:
            detail = "must not have leading or trailing whitespace"
            causes.append(field_errors.invalid(f"{path}.image", image, detail))
        causes += field_errors.validate_enum(
            f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES
        )
        for index, variable in enumerate(container.get("env") or ()):
            name = variable.get("name", "")
            at = f"{path}.env[{index}].name"
            causes += (
                field_errors.invalid_for_each(at, name, name_validation.env_var_name(name))
                if name
                else [field_errors.required(at)]
            )
        for index, mount in enumerate(container.get("volumeMounts") or ()):
            if mount.get("name") not in volumes:
                causes.append(field_errors.not_found(f"{path}.volumeMounts[{index}].name", mount.get("name", "")))
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            causes += _validate_probe(f"{path}.{name}", container.get(name) or {})
        return causes + _validate_resource_requirements(f"{path}.resources", container.get("resources") or {}, claims)

    return check


def _validate_probe(path: str, probe: Object) -> list[FieldError]:
    causes = []
    for name in ("httpGet", "tcpSocket"):
        if (handler := probe.get(name)) is not None:
            port = handler.get("port", 0)
            at = f"{path}.{name}.port"
            if isinstance(port, int):
                if not 1 <= port <= _MAX_PORT:
                    detail = f"must be between 1 and {_MAX_PORT}, inclusive"
                    causes.append(field_errors.invalid(at, port, detail))
            else:
                causes += field_errors.invalid_for_each(at, port, name_validation.port_name(port))
    return causes


def _validate_resource_requirements(path: str, resources: Object, claims: Sequence[str]) -> list[FieldError]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    causes = []
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            at = f"{path}.{part}[{name}]"
            try:
                if parse(amount) < 0:
                    causes.append(field_errors.invalid(at, str(amount), "must be greater than or equal to 0"))
            except MalformedQuantityError:
                detail = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                causes.append(field_errors.invalid(at, str(amount), detail))
    if not causes:
        for name, amount in sorted(requests.items()):
            if name in limits and parse(amount) > parse(limits[name]):
                detail = f"must be less than or equal to {name} limit of {limits[name]}"
                causes.append(field_errors.invalid(f"{path}.requests", str(amount), detail))
    return causes + _validate_container_claims(f"{path}.claims", resources.get("claims") or [], claims)


def _validate_container_claims(path: str, used: list[Object], claims: Sequence[str]) -> list[FieldError]:
    causes = []
    seen: set[str] = set()
    for index, claim in enumerate(used):
        at, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            causes.append(field_errors.required(at))
            continue
        key = f"{name}/{request}" if request else name
        whole_and_part = name in seen if request else any(other.startswith(f"{name}/") for other in seen)
        if request and name not in seen:
            causes += field_errors.invalid_for_each(f"{at}.request", request, name_validation.dns1123_label(request))
        if key in seen or whole_and_part:
            causes.append(field_errors.duplicate(at, name if name in seen or not request else key))
        seen.add(key)
        if name not in claims:
            known = f": {', '.join(sorted(claims))}" if claims else " which is empty"
            cause = field_errors.not_found(at, name)
            detail = f"{cause.message}: must be one of the names in pod.spec.resourceClaims{known}"
            causes.append(FieldError(cause.type, cause.field, detail))
    return causes


def _validate_durations(path: str, spec: Object) -> list[FieldError]:
    grace, deadline = spec.get("terminationGracePeriodSeconds"), spec.get("activeDeadlineSeconds")
    causes = []
    if grace is not None and grace < 0:
        causes.append(
            field_errors.invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
        )
    if deadline is not None and not 1 <= deadline < 1 << 31:
        detail = f"must be between 1 and {(1 << 31) - 1}, inclusive"
        causes.append(field_errors.invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    return causes


def _validate_node_affinity(path: str, affinity: Object) -> list[FieldError]:
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    at = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    causes = [] if wanted is None else node_selectors.validate(at, wanted)
    at = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        if not 1 <= preferred.get("weight", 0) <= 100:  # noqa: PLR2004 - upstream's
            causes.append(
                field_errors.invalid(f"{at}[{index}].weight", preferred.get("weight", 0), "must be in the range 1-100")
            )
        causes += node_selectors.validate_term(f"{at}[{index}].preference", preferred.get("preference") or {})
    return causes


def _validate_toleration(path: str, toleration: Object) -> list[FieldError]:
    key, operator, value, effect = (toleration.get(name, "") for name in ("key", "operator", "value", "effect"))
    causes = field_errors.invalid_for_each(f"{path}.key", key, name_validation.qualified_name(key)) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        causes.append(field_errors.invalid(f"{path}.operator", operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(field_errors.invalid(f"{path}.effect", effect, detail))
    if operator in ("", "Equal"):
        if errors := name_validation.label_value(value):
            causes.append(field_errors.invalid(f"{path}.operator", value, ";".join(errors)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(field_errors.invalid(f"{path}.operator", value, detail))
    else:
        causes.append(field_errors.not_supported(f"{path}.operator", operator, _TOLERATION_OPERATORS))
    return causes + (field_errors.validate_enum(f"{path}.effect", effect, _TAINT_EFFECTS) if effect else [])


def _validate_scheduling_gates(path: str, gates: list[Object]) -> list[FieldError]:
    def check(at: str, gate: Object) -> list[FieldError]:
        return field_errors.invalid_for_each(
            at, gate.get("name", ""), name_validation.qualified_name(gate.get("name", ""))
        )

    return field_errors.validate_items(path, gates, check) + field_errors.validate_unique(
        path, gates, lambda gate: gate.get("name", "")
    )


def _validate_resource_claim(path: str, claim: Object) -> list[FieldError]:
    causes = _validate_required_label(f"{path}.name", claim.get("name", ""))
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
        causes.append(field_errors.invalid(path, go, detail))
    for name in given:
        causes += field_errors.invalid_for_each(
            f"{path}.{name}", claim[name], name_validation.dns1123_subdomain(claim[name])
        )
    return causes


def _validate_deadline_update(spec: Object, before: Object) -> list[FieldError]:
    path, seconds, had = (
        "spec.activeDeadlineSeconds",
        spec.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds"),
    )
    if had is not None and seconds is None:
        return [field_errors.invalid(path, None, "must not update from a positive integer to nil value")]
    if had is not None and seconds > had:
        return [field_errors.invalid(path, seconds, "must be less than or equal to previous value")]
    return []


def _validate_only_added_tolerations(spec: Object, before: Object) -> list[FieldError]:
    def lasting(toleration: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [lasting(toleration) for toleration in spec.get("tolerations") or ()]
    if all(lasting(toleration) in kept for toleration in before.get("tolerations") or ()):
        return []
    detail = "existing toleration can not be modified except its tolerationSeconds"
    return [field_errors.forbidden("spec.tolerations", detail)]


def _validate_only_deleted_gates(spec: Object, before: Object) -> list[FieldError]:
    had = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    return [
        field_errors.forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(spec.get("schedulingGates") or ())
        if gate.get("name") not in had
    ]


def _with_mutable_fields_reset(spec: Object, before: Object) -> Object:
    """Return the new spec with all mutable fields reset to their old values."""
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


def _validate_gated_pod_update(spec: Object, before: Object, *, refusal: str) -> list[FieldError]:
    """Return the errors of an update of a gated pod, whose node selection may only become narrower."""
    selector, had = spec.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    causes = []
    if any(selector.get(key) != value for key, value in had.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        causes.append(field_errors.invalid("spec.nodeSelector", selector, detail))
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    wanted, terms = _required_node_terms(spec), _required_node_terms(before)
    if terms and len(wanted) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        causes.append(field_errors.invalid(f"{path}.nodeSelectorTerms", wanted, detail))
    elif terms:
        for index, (new, old) in enumerate(zip(wanted, terms, strict=True)):
            parts = ("matchExpressions", "matchFields")
            if any(requirement not in (new.get(part) or []) for part in parts for requirement in old.get(part) or ()):
                detail = "only additions are allowed (no mutations or deletions)"
                causes.append(field_errors.invalid(f"{path}.nodeSelectorTerms[{index}]", new, detail))
    rest, others = ({**(pod_spec.get("affinity") or {}), "nodeAffinity": None} for pod_spec in (spec, before))
    if rest != others:
        causes.append(field_errors.forbidden("spec", f"{refusal}\naffinity"))
    return causes


def _required_node_terms(spec: Object) -> list[Object]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return selector.get("nodeSelectorTerms") or []
