"""Deployments as their controller reads them."""

import hashlib
from typing import Any, Final

import msgspec

from dra.model.meta import ObjectMeta, Struct
from localplane.controller_manager.api_types import Condition, PodTemplateSpec, ReplicaSet

POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""Label that distinguishes the pods of a Deployment's ReplicaSets."""

REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
DESIRED_REPLICAS_ANNOTATION: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS_ANNOTATION: Final = "deployment.kubernetes.io/max-replicas"

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class RollingUpdate(Struct, frozen=True):
    """``spec.strategy.rollingUpdate`` of a Deployment."""

    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class RolloutStrategy(Struct, frozen=True):
    """``spec.strategy`` of a Deployment."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Struct, frozen=True):
    """``spec`` of a Deployment, as far as the controller reads the spec."""

    replicas: int = 1
    selector: dict[str, Any] = msgspec.field(default_factory=dict)
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: RolloutStrategy = RolloutStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600
    paused: bool = False


class DeploymentStatus(Struct, frozen=True):
    """``status`` of a Deployment, as far as the controller reads the status."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: list[Condition] | None = None


class Deployment(Struct, frozen=True):
    """A Deployment with the fields that the controller reads."""

    metadata: ObjectMeta
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def max_surge(self) -> int:
        """Return the maximum number of pods beyond the desired replicas."""
        if self.spec.strategy.type == "Recreate":
            return 0
        rolling = self.spec.strategy.rolling_update or RollingUpdate()
        return _resolve_int_or_percent(rolling.max_surge, self.spec.replicas, up=True)

    @property
    def max_unavailable(self) -> int:
        """Return the maximum number of desired pods that may be unavailable."""
        if self.spec.strategy.type == "Recreate":
            return self.spec.replicas
        rolling = self.spec.strategy.rolling_update or RollingUpdate()
        number = _resolve_int_or_percent(rolling.max_unavailable, self.spec.replicas, up=False)
        return 1 if number == 0 and self.max_surge == 0 else min(number, self.spec.replicas)

    def condition(self, kind: str) -> Condition | None:
        """Return the Deployment's condition of a type."""
        return next((c for c in self.status.conditions or () if c.type == kind), None)


def _resolve_int_or_percent(amount: int | str, total: int, *, up: bool) -> int:
    """Return an absolute number, or a percentage of a total."""
    if isinstance(amount, int):
        return amount
    share = int(amount.removesuffix("%") or 0) * total
    return -(-share // 100) if up else share // 100


def template_contents(template: PodTemplateSpec) -> dict[str, Any]:
    """Return a template without the label that the controller adds."""
    metadata = dict(template.metadata or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != POD_TEMPLATE_HASH}
    metadata.pop("creationTimestamp", None)
    return {"metadata": {**metadata, "labels": labels}, "spec": template.spec}


def template_hash(template: PodTemplateSpec) -> str:
    """Return a hash of ten letters and digits that distinguishes templates."""
    number = int.from_bytes(
        hashlib.sha256(msgspec.json.encode(template_contents(template), order="sorted")).digest()[:8]
    )
    return "".join(_LETTERS[number // len(_LETTERS) ** place % len(_LETTERS)] for place in range(10))


def revision(replicas: ReplicaSet) -> int:
    """Return the revision of a ReplicaSet's template in the history of its Deployment."""
    text = replicas.metadata.annotation(REVISION_ANNOTATION) or ""
    return int(text) if text.isdecimal() else 0
