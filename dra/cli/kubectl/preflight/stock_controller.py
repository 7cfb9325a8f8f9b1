"""Judges whether kube-controller-manager's resourceclaim-controller runs, by its actions and omissions.

No API says so. The evidence, strongest first:

1. the flag ``--controllers`` in the pods of kube-controller-manager, where those can be seen (kubeadm, kind);
2. a trial: a throw-away pod needs a claim from a template; the claim's managedFields name the creator;
3. a bound pod that its claim does not list: the stock controller lists such pods within milliseconds;
4. its name in the managedFields of claims, and the time of its last write there;
5. without evidence, it is assumed to be enabled, which is Kubernetes' default.

`stock_controller_reader` finds the evidence. Everything here is pure: objects come in, a verdict comes out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec

from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.engine.messages.remedies import WeighedChoice
from dra.model.claims import RESERVED_FOR_MAX_SIZE, ResourceClaim
from dra.model.meta import ObjectMeta, Struct
from dra.model.pods import POD_SCHEDULED, Pod, claim_names

STOCK_CONTROLLER_CHECK: Final = "stock controller"
"""Name of the check."""

STOCK_CONTROLLER: Final = "resourceclaim-controller"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
"""Name of the stock controller in managedFields.

The API server takes the name from the User-Agent, which begins with the name of the program: a distribution that puts
all of Kubernetes into one program has another name.
"""

OWN_MANAGER: Final = "dra-reserve"
"""Name of our controller in managedFields."""

UNKNOWN_CREATOR: Final = "unknown"
"""Creator of an object without managedFields."""

UNLISTED_AFTER: Final = timedelta(seconds=60)
"""Time for which a bound pod must have been unlisted: far longer than the stock controller takes, with its retries."""

TRACE_VALID: Final = timedelta(minutes=10)
"""Maximum age of a write in managedFields that is still evidence."""


class ManagedFieldsEntry(Struct, frozen=True):
    """An entry of ``metadata.managedFields``: a manager, a time, and the fields that the manager wrote."""

    manager: str = ""
    subresource: str = ""
    time: str | None = None
    fields: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class ManagedMeta(ObjectMeta, frozen=True):
    """``metadata`` of an object, with its managedFields."""

    managed_fields: list[ManagedFieldsEntry] | None = None


class ManagedObject(Struct, frozen=True):
    """An object, reduced to its metadata and the managers that wrote it."""

    metadata: ManagedMeta

    @property
    def creator(self) -> str:
        """The creator of the object: the manager that owns its spec."""
        shares = self.metadata.managed_fields or ()
        return next((s.manager for s in shares if not s.subresource and "f:spec" in (s.fields or {})), UNKNOWN_CREATOR)


class StockControllerState(StrEnum):
    """Whether the stock claim controller runs."""

    ON = "on"
    OFF = "off"
    MIXED = "mixed"  # on in some of the control plane's nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class StockControllerEvidence:
    """The state of the stock controller, and the evidence for it."""

    state: StockControllerState
    detail: str
    certainty: str
    is_local_plane: bool = False
    """Whether the server is a local plane: its controller works in mode replace."""


def is_enabled(controllers: str) -> bool:
    """Report whether a value of ``--controllers`` enables the stock controller: names have precedence over ``*``."""
    names = [name.strip() for name in controllers.split(",")]
    if STOCK_CONTROLLER in names:
        return True
    return f"-{STOCK_CONTROLLER}" not in names and "*" in names


def judge_by_flags(pods: Iterable[Mapping[str, Any]]) -> StockControllerEvidence | None:
    """Judge by the command lines of kube-controller-manager's pods; None without such pods."""
    enabled_by_pod = {
        pod.get("metadata", {}).get("name", ""): is_enabled(_controllers_flag(container) or "*")
        for pod in pods
        for container in pod.get("spec", {}).get("containers") or ()
        if _runs_program(container, CONTROLLER_MANAGER)
    }
    if not enabled_by_pod:
        return None
    certainty = "certain: by the flag --controllers"
    if all(enabled_by_pod.values()):
        return StockControllerEvidence(
            state=StockControllerState.ON, detail=f"enabled in {', '.join(sorted(enabled_by_pod))}", certainty=certainty
        )
    if not any(enabled_by_pod.values()):
        return StockControllerEvidence(
            state=StockControllerState.OFF,
            detail=f"disabled in {', '.join(sorted(enabled_by_pod))}",
            certainty=certainty,
        )
    on = ", ".join(sorted(name for name, is_on in enabled_by_pod.items() if is_on))
    return StockControllerEvidence(
        state=StockControllerState.MIXED, detail=f"enabled in {on}, disabled in the others", certainty=certainty
    )


def _command_line(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or ()), *(container.get("args") or ())]


def _runs_program(container: Mapping[str, Any], program: str) -> bool:
    return (
        any(word.rpartition("/")[2] == program for word in _command_line(container)[:1])
        or container.get("name") == program
    )


def _controllers_flag(container: Mapping[str, Any]) -> str:
    words = _command_line(container)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--controllers":
            return value if equals else following
    return ""


def judge_local_plane(processes: Mapping[str, int]) -> StockControllerEvidence:
    """Judge a local plane: it has no kube-controller-manager, and only our controller handles claims."""
    pid = processes.get("controller")
    works = f"; the controller of the plane runs (pid {pid})" if pid else "; no dra-reserve controller runs"
    return StockControllerEvidence(
        state=StockControllerState.OFF,
        detail=f"disabled: a local plane has none{works}",
        certainty="certain: reported by the plane",
        is_local_plane=True,
    )


def judge_by_unlisted_pods(
    claims: Mapping[tuple[str, str], ResourceClaim], pods: Iterable[Pod], *, now: datetime
) -> StockControllerEvidence | None:
    """Judge by bound pods that their claims do not list: a running stock controller would list each within a moment."""
    for pod in pods:
        condition = pod.condition(POD_SCHEDULED)
        since = _parse_time(condition.last_transition_time) if condition is not None else None
        if (
            not pod.spec.node_name
            or pod.terminal
            or pod.metadata.deleting
            or since is None
            or now - since < UNLISTED_AFTER
        ):
            continue
        for name in claim_names(pod):
            claim = claims.get((pod.metadata.namespace, name))
            if claim is None or claim.status.allocation is None or claim.metadata.deleting:
                continue
            if len(claim.entries) >= RESERVED_FOR_MAX_SIZE or any(e.is_pod_group for e in claim.entries):
                continue
            if all(e.uid != pod.metadata.uid for e in claim.entries):
                detail = f"pod {'/'.join(pod.metadata.key)} is bound, but its claim {name} does not list it"
                return StockControllerEvidence(
                    state=StockControllerState.OFF,
                    detail=f"disabled: {detail}",
                    certainty="nearly certain: the controller would list the pod at once",
                )
    return None


def judge_by_managed_fields(claims: Iterable[ManagedObject], *, now: datetime) -> StockControllerEvidence | None:
    """Judge by recent writes of the stock controller; the absence of writes is no evidence."""
    written = (
        (when, "/".join(claim.metadata.key))
        for claim in claims
        for share in claim.metadata.managed_fields or ()
        if share.manager == CONTROLLER_MANAGER and (when := _parse_time(share.time)) is not None
    )
    latest = max(written, default=None)
    if latest is None or now - latest[0] > TRACE_VALID:
        return None
    ago = max(0, int((now - latest[0]).total_seconds()))
    return StockControllerEvidence(
        state=StockControllerState.ON,
        detail=f"enabled: it wrote claim {latest[1]} {ago} s ago",
        certainty="likely: it may have been disabled since; use --probe",
    )


def judge_by_claim_creator(manager: str | None, *, seconds: float) -> StockControllerEvidence:
    """Judge by the creator of the throw-away pod's claim; None means that no claim was created."""
    certainty = "certain: by a probe pod"
    if manager is None:
        return StockControllerEvidence(
            state=StockControllerState.OFF,
            detail=f"disabled: no controller created a claim from a template within {seconds:g} s",
            certainty=certainty,
        )
    if manager == UNKNOWN_CREATOR:
        detail = "enabled: a controller created a claim from a template, and the API server does not record which"
        return StockControllerEvidence(
            state=StockControllerState.ON, detail=detail, certainty="likely: managedFields are missing"
        )
    if manager != OWN_MANAGER:
        return StockControllerEvidence(
            state=StockControllerState.ON,
            detail=f"enabled: {manager} created a claim from a template",
            certainty=certainty,
        )
    likely = "nearly certain: the stock controller is usually faster"
    return StockControllerEvidence(
        state=StockControllerState.OFF,
        detail=f"disabled: {OWN_MANAGER} creates the claims from templates",
        certainty=likely,
    )


def assume_enabled() -> StockControllerEvidence:
    """Return the default of Kubernetes, for clusters without any evidence."""
    return StockControllerEvidence(
        state=StockControllerState.ON,
        detail="enabled",
        certainty="default, not verified; use --probe",
    )


def _parse_time(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def judge_stock_controller(evidence: StockControllerEvidence, *, replace: bool, back: bool = False) -> CheckResult:
    """Judge the stock claim controller against the wanted mode; with ``back``, no controller of ours will run."""
    result = partial(CheckResult, check=STOCK_CONTROLLER_CHECK, detail=evidence.detail, certainty=evidence.certainty)
    on = f"remove ,-{STOCK_CONTROLLER} from --controllers of every kube-controller-manager"
    off = WeighedChoice(
        f"append ,-{STOCK_CONTROLLER} to --controllers of every kube-controller-manager, or use mode alongside"
    )
    if back and evidence.is_local_plane:
        return result(
            state=CheckState.WARNING,
            remedy=WeighedChoice("a local plane has no stock claim controller to return to"),
        )
    if back and evidence.state is not StockControllerState.ON:
        return result(state=CheckState.MISSING, remedy=WeighedChoice(on))
    if evidence.state is StockControllerState.MIXED or (replace and evidence.state is StockControllerState.ON):
        return result(state=CheckState.MISSING, remedy=off)
    if evidence.state is StockControllerState.OFF and evidence.is_local_plane and not replace:
        return result(state=CheckState.OK)
    if not replace and evidence.state is StockControllerState.OFF:
        return result(state=CheckState.MISSING, remedy=WeighedChoice(f"{on}, or use mode replace"))
    return result(state=CheckState.OK)
