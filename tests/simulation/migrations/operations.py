"""The operations of a history: values that say when something happens, each complete in itself.

So a history without some of its operations is a history, too: nothing is drawn while it runs.
"""

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from dra.kube.resources import POD_DISRUPTION_BUDGETS, POD_MIGRATION_JOBS, PODS, REPLICA_SETS, RESERVATIONS, Resource
from localplane.fault_injection import FaultRule
from localplane.nodes.programs import STOP_SECONDS
from tests.simulation.migrations.initial_state import TEMPLATE

if TYPE_CHECKING:
    from tests.simulation.migrations.cluster import MigratingCluster

NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
SCHEDULER: Final = "koord-scheduler"


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """An operation at some second."""

    at: float

    @property
    def kind(self) -> str:
        """The name under which the operation is counted."""
        return " ".join(filter(None, (type(self).__name__, getattr(self, "how", ""))))

    async def apply(self, cluster: "MigratingCluster") -> bool:
        """Perform the operation; return whether it had an effect."""
        raise NotImplementedError

    def __str__(self) -> str:
        fields = ((f.name, getattr(self, f.name), f.default) for f in msgspec.structs.fields(self) if f.name != "at")
        text = ", ".join(f"{name}={value!r}" for name, value, default in fields if value != default)
        return f"{self.at:7.2f}  {type(self).__name__}({text})"


class CreateReplicaSet(Operation):
    """Create a ReplicaSet; its pods run until they are stopped."""

    namespace: str
    name: str
    replicas: int
    cpu: int = 1
    device: bool = False
    """Whether each pod has a claim from a template."""
    grace: int = 5
    stop: float = 0.0
    """Seconds that its containers take to end."""
    node: str = ""
    """Node that the pods prefer by a node selector; empty: any."""

    @property
    def kind(self) -> str:
        return "CreateReplicaSet with devices" if self.device else "CreateReplicaSet"

    async def apply(self, cluster: "MigratingCluster") -> bool:
        body = {
            "metadata": {"name": self.name},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": {
                    "metadata": {"labels": {"app": self.name}, "annotations": {STOP_SECONDS: str(self.stop)}},
                    "spec": pod_spec(cpu=self.cpu, device=self.device, grace=self.grace),
                },
            },
        }
        return await cluster.create(REPLICA_SETS, self.namespace, body)


class ScaleReplicaSet(Operation):
    """Change the replicas of a ReplicaSet."""

    namespace: str
    name: str
    replicas: int

    async def apply(self, cluster: "MigratingCluster") -> bool:
        return await cluster.patch(REPLICA_SETS, self.namespace, self.name, {"spec": {"replicas": self.replicas}})


class CreateBudget(Operation):
    """Create a PodDisruptionBudget of a ReplicaSet's pods."""

    namespace: str
    name: str
    app: str
    max_unavailable: int

    async def apply(self, cluster: "MigratingCluster") -> bool:
        spec = {"selector": {"matchLabels": {"app": self.app}}, "maxUnavailable": self.max_unavailable}
        return await cluster.create(
            POD_DISRUPTION_BUDGETS, self.namespace, {"metadata": {"name": self.name}, "spec": spec}
        )


class CreateStranger(Operation):
    """Create a pod without a controller, which competes for capacity."""

    namespace: str
    name: str
    cpu: int

    async def apply(self, cluster: "MigratingCluster") -> bool:
        body = {"metadata": {"name": self.name}, "spec": pod_spec(cpu=self.cpu, device=False, grace=5)}
        return await cluster.create(PODS, self.namespace, body)


class Migrate(Operation):
    """Create a PodMigrationJob for one of the pods of a ReplicaSet."""

    namespace: str
    name: str
    app: str
    nth: int
    """Number of the pod among the pods of the ReplicaSet, by name."""
    mode: str = ""
    ttl: str = ""
    policy: str = ""
    paused: bool = False
    grace: int | None = None
    cost: str = ""

    @property
    def kind(self) -> str:
        return f"Migrate {self.mode or 'by default'}"

    async def apply(self, cluster: "MigratingCluster") -> bool:
        pods = [
            pod
            for pod in cluster.all(PODS)
            if pod["metadata"]["namespace"] == self.namespace
            and (pod["metadata"].get("labels") or {}).get("app") == self.app
            and not pod["metadata"]["name"].startswith("reservation-")
        ]
        if not pods:
            return False
        pod = sorted(pods, key=lambda each: each["metadata"]["name"])[self.nth % len(pods)]
        spec: dict[str, Any] = {"podRef": {"namespace": self.namespace, "name": pod["metadata"]["name"]}}
        spec |= {"mode": self.mode} if self.mode else {}
        spec |= {"ttl": self.ttl} if self.ttl else {}
        spec |= {"paused": True} if self.paused else {}
        spec |= {"deleteOptions": {"gracePeriodSeconds": self.grace}} if self.grace is not None else {}
        metadata: dict[str, Any] = {"name": self.name}
        if self.policy:
            metadata["labels"] = {"koordinator.sh/evict-policy": self.policy}
        return await cluster.create(POD_MIGRATION_JOBS, "", {"metadata": metadata, "spec": spec})


class ChangeJob(Operation):
    """Pause, resume or delete a PodMigrationJob."""

    name: str
    how: Literal["paused", "resumed", "deleted"]

    async def apply(self, cluster: "MigratingCluster") -> bool:
        if self.how == "deleted":
            return await cluster.delete(POD_MIGRATION_JOBS, "", self.name)
        return await cluster.patch(POD_MIGRATION_JOBS, "", self.name, {"spec": {"paused": self.how == "paused"}})


class EndPod(Operation):
    """Delete one of a ReplicaSet's pods."""

    namespace: str
    app: str
    nth: int
    how: Literal["deleted", "forced"]

    async def apply(self, cluster: "MigratingCluster") -> bool:
        pods = sorted(
            pod["metadata"]["name"]
            for pod in cluster.all(PODS)
            if pod["metadata"]["namespace"] == self.namespace
            and (pod["metadata"].get("labels") or {}).get("app") == self.app
        )
        if not pods:
            return False
        grace = 0 if self.how == "forced" else None
        return await cluster.delete(PODS, self.namespace, pods[self.nth % len(pods)], grace=grace)


class DeleteReservation(Operation):
    """Delete the Reservation of a job."""

    job: str

    async def apply(self, cluster: "MigratingCluster") -> bool:
        found = cluster.find(POD_MIGRATION_JOBS, "", self.job)
        return found is not None and await cluster.delete(RESERVATIONS, "", found["metadata"]["uid"])


class CordonNode(Operation):
    """Cordon a node, and uncordon the node some seconds later."""

    name: str
    seconds: float

    async def apply(self, cluster: "MigratingCluster") -> bool:
        done = await cluster.patch(NODES, "", self.name, {"spec": {"unschedulable": True}})
        cluster.later(self.seconds, lambda: cluster.patch(NODES, "", self.name, {"spec": {"unschedulable": None}}))
        return done


class KillProcess(Operation):
    """End a process between two instructions."""

    component: str
    down: float

    @property
    def kind(self) -> str:
        return f"KillProcess {self.component}"

    async def apply(self, cluster: "MigratingCluster") -> bool:
        cluster.safety.had_faults = True
        return cluster.kill(self.component, down=self.down)


class InjectFaults(Operation):
    """Replace the rules by which requests and watches fail."""

    rules: tuple[FaultRule, ...] = ()

    async def apply(self, cluster: "MigratingCluster") -> bool:
        cluster.faults.set(self.rules)
        cluster.safety.had_faults |= bool(self.rules)
        return bool(self.rules)


def pod_spec(*, cpu: int, device: bool, grace: int) -> dict[str, Any]:
    """Return the spec of a pod that runs until it is stopped."""
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}
    spec: dict[str, Any] = {
        "containers": [container],
        "schedulerName": SCHEDULER,
        "terminationGracePeriodSeconds": grace,
    }
    if device:
        container["resources"]["claims"] = [{"name": "gpu"}]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
    return spec
