"""A PodMigrationJob with everything that one decision about it reads, and the pods that migrations read."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ValidationError

from dra.api.migration.model import PodMigrationJob, PodMigrationJobSpec, PodMigrationJobStatus
from dra.api.object_fields import ObjectMetadata
from dra.api.reservations.model import Reservation
from dra.engine.instants import WallTime
from dra.model.meta import Key, Struct, Uid
from dra.model.pods import Volume
from dra.model.scheduling import SchedulerPod, SchedulerPodSpec, SchedulerPodStatus


class MigrationVolume(Volume, frozen=True):
    """``spec.volumes[]`` of a Pod: the kinds that concern evictions have a field."""

    name: str = ""
    empty_dir: dict[str, object] | None = None
    host_path: dict[str, object] | None = None


class MigrationPodSpec(SchedulerPodSpec, frozen=True):
    """``spec`` of a Pod, with the fields that migrations read."""

    volumes: list[MigrationVolume] | None = None  # type: ignore[assignment]  # lists are invariant; nobody appends


class MigrationPodStatus(SchedulerPodStatus, frozen=True):
    """``status`` of a Pod, with the fields that migrations read."""


class MigrationPod(SchedulerPod, frozen=True):
    """A Pod with all fields that migrations read."""

    spec: MigrationPodSpec = MigrationPodSpec()
    status: MigrationPodStatus = MigrationPodStatus()

    def reduced(self) -> Self | None:
        """Return None: without its labels, no budget would cover the pod."""
        return None


class ClaimReach(Struct, frozen=True):
    """The nodes that a claim named by a pod (``resourceClaimName``) can be used on."""

    key: Key
    exists: bool = True
    pinned_node: str = ""
    """The only node that the claim's allocation can be used on; empty if not allocated or on several nodes."""
    other_nodes: bool = True
    """Whether a node other than the pod's can use the allocation; True for a claim without an allocation."""


class Sibling(Struct, frozen=True):
    """An unfinished job for another pod of the same workload, which has not recorded a replacement yet."""

    job: PodMigrationJob
    reservation: Reservation | None = None
    """The Reservation that the job refers to."""
    is_leaving: bool = False
    """Whether the pod of the job is terminating, has ended or is gone."""


class JobView(Struct, frozen=True):
    """A job with everything that a decision about it reads."""

    job: PodMigrationJob
    parse_error: str = ""
    """Fields of the job that cannot be read; then `job` is an `unreadable_job`, whose spec is empty."""
    is_too_large: bool = False
    """Whether the job cannot be read because of its size."""
    pod: MigrationPod | None = None
    """The pod of ``spec.podRef``, by its name; its uid may be another than ``spec.podRef.uid``."""
    pod_gone: bool = False
    """Whether a live read showed that no pod of the name exists."""
    pod_template: dict[str, Any] | None = None
    """Metadata and spec of the pod as the API has them; None if not read yet (`ReadPod` reads them)."""
    claims: tuple[ClaimReach, ...] = ()
    """The claims that the pod names, when `pod_template` is given."""
    reservation: Reservation | None = None
    """The Reservation that ``spec.reservationOptions.reservationRef`` names, or else the one named by the job's uid."""
    reservation_gone: bool = False
    """Whether a live read showed that the Reservation does not exist."""
    bound_pod: MigrationPod | None = None
    """The pod of ``status.podRef`` of the job, or else the pod that the Reservation's ``currentOwners`` names first."""
    bound_pod_gone: bool = False
    """Whether a live read showed that this pod does not exist."""
    created: Reservation | None = None
    """The Reservation that the job created, if the job refers to another one by now."""
    keeps_created: bool = False
    """Whether the API server forbade to delete the Reservation that the job created; its end is left to others."""
    siblings: tuple[Sibling, ...] = ()
    """Jobs of the same workload, by name; given where a decision depends on these (`exchange.concerns_siblings`)."""
    unclaimed: tuple[Reservation, ...] = ()
    """Reservations of jobs of the same workload, by name, that are used by a pod which no job has recorded, and that no
    sibling refers to; given with `siblings`."""
    create_error: str = ""
    """Error of the API server when the Reservation was to be created; empty if there was none."""
    evict_error: str = ""
    """Error of the API server for the last eviction, which will be tried again; empty if there was none."""
    evict_failed_at: WallTime = 0.0
    """When the last eviction failed."""
    sources: frozenset[str] = frozenset()
    """The nodes that the plugin which wants the migration took pods from in its last round: no node receives and gives;
    empty for a job whose receivers no plugin has chosen."""
    evicted: Uid = Uid("")
    """Uid of the pod that this process evicted, or seen ending by a live read; empty if none."""

    @property
    def pod_key(self) -> Key:
        """The namespace and name in ``spec.podRef``."""
        return self.job.spec.pod_ref.key


def unreadable_job(content: Mapping[str, Any]) -> PodMigrationJob:
    """Return a job whose spec cannot be read, with an empty spec; its status stays if that can be read."""
    try:
        status = PodMigrationJobStatus.model_validate(content.get("status") or {}, by_alias=True, by_name=False)
    except ValidationError:
        status = PodMigrationJobStatus()
    metadata = ObjectMetadata.model_validate(content.get("metadata") or {}, by_alias=True, by_name=False)
    return PodMigrationJob(metadata=metadata, spec=PodMigrationJobSpec(), status=status)
