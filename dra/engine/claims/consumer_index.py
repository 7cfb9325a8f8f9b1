"""The pods that name claims, by uid and by name, and the deleted ones that requests may still bring back."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import msgspec

from dra.engine.claims import consumers
from dra.engine.claims.consumers import DEFAULT_GRACE_PERIOD, Consumer, Stage
from dra.engine.claims.node_index import NodeIndex, SandboxTracker
from dra.engine.claims.view import OwningPodPhase
from dra.engine.instants import Instant
from dra.model.claims import ResourceClaim
from dra.model.deleted_uids import DELETED_UIDS_MAX
from dra.model.meta import Key, Uid
from dra.model.pods import Pod
from dra.model.resource_versions import is_newer, list_covers


class DeletedPods:
    """The deleted pods, and how long the containers of each may run on; the oldest are forgotten.

    The response to a request may arrive after the last watch event. Requests last seconds, so the latest are enough.
    """

    def __init__(self) -> None:
        self._graces: dict[Uid, float | None] = {}

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._graces

    def add(self, uid: Uid, *, grace: float | None = DEFAULT_GRACE_PERIOD) -> None:
        """Add a pod whose containers have that number of seconds to end: an entry may show later that it was bound.

        None is a pod that had ended by then, or was never bound.
        """
        self._graces[uid] = grace
        if len(self._graces) > DELETED_UIDS_MAX:
            del self._graces[next(iter(self._graces))]

    def grace(self, uid: Uid) -> float | None:
        """Return the seconds that the containers of a pod have to end; of an unknown pod the default of pods."""
        return self._graces.get(uid, DEFAULT_GRACE_PERIOD)


class ConsumerIndex:
    """The pods that name claims."""

    def __init__(self, nodes: NodeIndex) -> None:
        self._nodes = nodes
        self.deleted = DeletedPods()
        self._consumers: dict[Uid, Consumer] = {}
        self._names: dict[Key, Uid] = {}
        """The pod that currently has a name."""

        self._sandboxes = SandboxTracker()
        self._gated_without_claim: dict[Uid, Consumer] = {}
        """Pods behind this project's gate that name no claim yet: only templates, whose claims are generated later."""

    def __contains__(self, uid: Uid) -> bool:
        return uid in self._consumers

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers.values())

    def get(self, uid: Uid) -> Consumer | None:
        """Return the consumer with that uid, None if the pod is unknown."""
        return self._consumers.get(uid)

    def observe(self, pod: Pod, *, now: Instant) -> tuple[Consumer | None, Consumer] | None:
        """Record a pod; return its state before and after, None if a newer state is known or the pod is deleted."""
        uid = pod.metadata.uid
        if uid in self.deleted:
            return None
        before = self._consumers.get(uid)
        if before is not None and not is_newer(pod.metadata.resource_version, before.resource_version):
            return None
        started = self._sandboxes.started(pod, boot=self._nodes.boot_id(pod.spec.node_name))
        after = self._consumers[uid] = consumers.consumer_of(pod, before=before, started=started, now=now)
        return before, after

    def take_name(self, consumer: Consumer) -> Uid:
        """Record that a pod has its name now; return the pod that had the name before, the same one if none had."""
        predecessor = self._names.get(consumer.key, consumer.uid)
        self._names[consumer.key] = consumer.uid
        return predecessor

    def observe_reboot(self, uid: Uid, boot: str, *, now: Instant) -> tuple[Consumer, Consumer] | None:
        """Record that the node of a pod has that bootID; return the pod before and after if that ended its sandbox."""
        before = self._consumers.get(uid)
        if before is None or not self._sandboxes.rebooted(uid, boot=boot) or before.stage is not Stage.STARTED:
            return None
        after = self._consumers[uid] = msgspec.structs.replace(before, stage=Stage.STARTING, stage_since=now)
        return before, after

    def forget(self, uid: Uid, *, certain: bool) -> Consumer | None:
        """Forget a pod that is deleted or, without ``certain``, no longer relevant; return what was known of it."""
        consumer = self._consumers.pop(uid, None)
        if certain and consumer is not None:
            self.deleted.add(uid, grace=None if consumer.stage is Stage.FINISHED else consumer.grace)
        elif certain:
            self.deleted.add(uid)
        self._sandboxes.forget(uid)
        self._gated_without_claim.pop(uid, None)
        if consumer is not None and self._names.get(consumer.key) == uid:
            del self._names[consumer.key]
        return consumer

    def missing_from(self, there: AbstractSet[Uid], version: str) -> list[Uid]:
        """Return the pods that a complete list of that version lacks and would have."""
        missing = self._consumers.keys() - there
        return [uid for uid in missing if list_covers(version, self._consumers[uid].resource_version)]

    def is_unfinished(self, uid: Uid) -> bool:
        """Return whether a pod is known and has not finished."""
        consumer = self._consumers.get(uid)
        return consumer is not None and consumer.stage is not Stage.FINISHED

    def update_gated(self, consumer: Consumer) -> bool:
        """Record whether a pod waits behind this project's gate and names no claim; return whether it does."""
        ours_goes = consumer.gated_by_us_only or consumer.precedes_other_gates
        waits = not consumer.claims and ours_goes and consumer.stage is Stage.GATED
        if waits:
            self._gated_without_claim[consumer.uid] = consumer
        else:
            self._gated_without_claim.pop(consumer.uid, None)
        return waits

    def gated_without_claim(self) -> tuple[Consumer, ...]:
        """Return the pods behind this project's gate that name no claim yet."""
        return tuple(self._gated_without_claim.values())

    def owning_pod_phase(self, claim: ResourceClaim) -> OwningPodPhase:
        """Return the phase of the pod that a claim was generated for."""
        owner = claim.owning_pod
        if owner is None:
            return OwningPodPhase.NONE
        named = self._consumers.get(self._names.get((claim.metadata.namespace, owner.name), Uid("")))
        if named is None:
            return OwningPodPhase.GONE if owner.uid in self.deleted else OwningPodPhase.UNKNOWN
        if named.uid != owner.uid:
            # The claims watch may be ahead of the pods watch: then the pod of that name is the predecessor of the
            # owner.
            after = is_newer(named.resource_version, claim.metadata.resource_version)
            return OwningPodPhase.REPLACED if after or owner.uid in self.deleted else OwningPodPhase.UNKNOWN
        return OwningPodPhase.DONE if named.stage is Stage.FINISHED else OwningPodPhase.PRESENT
