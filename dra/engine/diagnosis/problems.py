"""The codes of all problems that ``kubectl dra explain`` reports for one object and ``audit`` for all objects."""

from enum import StrEnum

from dra.engine.claims.reasons import Subject
from dra.model.meta import Key, Struct, Uid
from dra.model.workload_reservations import NO_UID


class ProblemCode(StrEnum):
    """The code of a kind of problem; the set is closed, and the command line has the words for each code."""

    # Damage: two pods may have one device, or a pod uses a device that is not allocated to its claim.
    HELD_TWICE = "DeviceHeldTwice"
    ALLOCATION_LOST = "AllocationLost"
    OFF_ALLOCATION = "PodOffAllocation"
    UNGUARDED = "Unguarded"
    # Leaks: devices that no pod uses and no other claim can get.
    NOT_FREED = "NotFreed"
    FREED_SOON = "FreedSoon"
    LEFT_OVER = "LeftOver"
    KEPT_BY_OTHERS = "KeptByForeignEntries"
    VANISHED = "PodsVanished"
    NODE_LOST = "NodeLost"
    IN_DOUBT = "ReservationInDoubt"
    RELEASE_WAITS = "ReleaseWaitsForPods"
    DELETION_WAITS = "DeletionWaitsForPods"
    ZOMBIE_CLAIM = "ZombieClaim"
    OWNERLESS = "GeneratedClaimWithoutOwner"
    FINALIZER_LEFT = "FinalizerLeft"
    FINALIZER_FOREIGN = "ForeignFinalizer"
    STALE_ENTRIES = "StaleEntries"
    TOMBSTONES = "Tombstones"
    MARKS_LEFT = "MarksLeft"
    IDLE = "ReservedIdle"
    KEPT_WHILE_SUSPENDED = "KeptWhileSuspended"
    WAITS_FOR_ITSELF = "WorkloadWaitsForItself"
    # Annotations and references that do not have the intended effect.
    MALFORMED = "MalformedReference"
    RESERVATION_IGNORED = "ReservationIgnored"
    WORKLOAD_NOT_FOUND = "WorkloadNotFound"
    WRONG_UID = "WorkloadGone"
    KIND_UNKNOWN = "WorkloadKindUnknown"
    FORCE_IGNORED = "ForceReleaseIgnored"
    FORCE_BLOCKED = "ForceReleaseBlocked"
    UNKNOWN_ANNOTATION = "UnknownAnnotation"
    # Allocations that pods cannot use.
    NODE_CORDONED = "AllocationOnCordonedNode"
    NODE_MAY_BE_DELETED = "NodeMayBeDeleted"
    NODE_STAYS_ANNOTATED = "NodeStaysAnnotated"
    STUCK = "AllocationStuck"
    DEVICE_GONE = "DeviceGone"
    DEVICE_TAINTED = "DeviceTainted"
    DEVICE_IMPAIRED = "DeviceImpaired"
    DEVICE_CLOSED = "DeviceClosed"
    DEVICE_CONDITION = "DeviceConditionFalse"
    LIST_FULL = "ConsumerLimit"
    TIMELESS = "NoAllocationTimestamp"
    # Pools whose devices cannot be allocated.
    POOL_INCOMPLETE = "PoolIncomplete"
    POOL_INVALID = "PoolInvalid"
    # Stored objects that a newer version of Kubernetes takes otherwise.
    NEGATIVE_SHARE = "NegativeConsumedCapacity"
    UPGRADE_OBSTACLE = "UpgradeObstacle"
    # No controller does the work.
    NO_CONTROLLER = "NoController"
    NOT_ENTERED = "NotEntered"
    NO_REPLICA_READY = "NoReplicaReady"
    REPLICAS_NOT_READY = "ReplicasNotReady"
    # Pods that make no progress.
    NODE_NOT_READY = "NodeNotReady"
    BOUND_WITHOUT_ALLOCATION = "BoundWithoutAllocation"
    PREPARE_REFUSED = "PrepareRefused"
    NOT_PREPARED = "DevicesNotPrepared"
    CONTAINER_NOT_RUNNING = "ContainerNotRunning"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    TERMINATING = "TerminatingOnLostNode"
    UNLISTED = "NotListed"
    GATED = "GateWithoutController"
    GATE_UNKNOWN = "GatedAsUsual"
    GATED_BY_OTHERS = "GatedByOthers"
    NOT_ADMITTED = "NotAdmittedByKueue"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_MADE = "ClaimNotMade"
    TEMPLATE_MISSING = "TemplateMissing"
    CLAIM_DELETING = "ClaimDeleting"
    REQUEST_TEMPLATE_MISSING = "RequestTemplateMissing"
    NAMESPACE_NOT_ENABLED = "NamespaceNotEnabled"
    NOT_TRANSLATED = "RequestNotTranslated"
    UNSATISFIABLE = "Unsatisfiable"
    AWAITS_BINDING = "AwaitsBindingConditions"
    BINDING_FAILED = "BindingConditionFailed"
    POD_TOO_LARGE = "PodTooLarge"
    NOT_TRIED = "NotTried"
    REFUSED = "RefusedByScheduler"
    UNSCHEDULABLE = "Unschedulable"
    # Reservations.
    OPEN_TO_ALL = "OwnersOfAnyNamespace"
    RESERVED_CAPACITY_SHORT = "ReservedCapacityShort"
    # Migrations.
    NO_DESCHEDULER = "NobodyMigrates"
    MIGRATION_PAUSED = "MigrationPaused"
    MIGRATION_UNAPPROVED = "MigrationNotApproved"
    BUDGET_FORBIDS_MIGRATION = "BudgetForbidsMigration"
    # Colocation: what nodes use, and the batch resources made of it.
    NOT_SAMPLED = "NodeNotSampled"
    BATCH_BELOW_HELD = "BatchResourceBelowHeld"
    BATCH_REFUSED = "BatchPodRefused"
    BATCH_FRACTION = "BatchRequestFraction"
    COLOCATION_CONFIG_INVALID = "ColocationConfigInvalid"
    NODE_CONFIGS_OVERLAP = "NodeConfigsOverlap"


class ProblemSeverity(StrEnum):
    """The severity of a problem, derived from its code."""

    ERROR = "error"  # devices may be used twice, or a component does nothing
    LEAK = "leak"  # devices are not available to other claims
    WARNING = "warning"
    INFO = "info"


_ERRORS = frozenset(
    {
        ProblemCode.HELD_TWICE,
        ProblemCode.ALLOCATION_LOST,
        ProblemCode.OFF_ALLOCATION,
        ProblemCode.UNGUARDED,
        ProblemCode.NEGATIVE_SHARE,
        ProblemCode.NO_REPLICA_READY,
    }
)
_LEAKS = frozenset(
    {
        ProblemCode.NOT_FREED,
        ProblemCode.LEFT_OVER,
        ProblemCode.KEPT_BY_OTHERS,
        ProblemCode.NODE_LOST,
        ProblemCode.IN_DOUBT,
        ProblemCode.RELEASE_WAITS,
        ProblemCode.DELETION_WAITS,
        ProblemCode.ZOMBIE_CLAIM,
        ProblemCode.FINALIZER_LEFT,
        ProblemCode.WAITS_FOR_ITSELF,
    }
)
_INFOS = frozenset(
    {
        ProblemCode.TIMELESS,
        ProblemCode.DEVICE_CLOSED,
        ProblemCode.IDLE,
        ProblemCode.VANISHED,
        ProblemCode.TOMBSTONES,
        ProblemCode.FREED_SOON,
        ProblemCode.GATE_UNKNOWN,
        ProblemCode.GATED_BY_OTHERS,
        ProblemCode.NAMESPACE_NOT_ENABLED,
        ProblemCode.OPEN_TO_ALL,
        ProblemCode.MIGRATION_PAUSED,
        ProblemCode.MIGRATION_UNAPPROVED,
    }
)


class Problem(Struct, frozen=True):
    """One problem of one object, with its numbers and names."""

    code: ProblemCode
    subject: Subject
    facts: tuple[tuple[str, str | int], ...] = ()

    @property
    def severity(self) -> ProblemSeverity:
        """The severity that the problem's code has."""
        if self.code in _ERRORS:
            return ProblemSeverity.ERROR
        if self.code in _LEAKS:
            return ProblemSeverity.LEAK
        return ProblemSeverity.INFO if self.code in _INFOS else ProblemSeverity.WARNING

    @property
    def facts_by_name(self) -> dict[str, str | int]:
        """The facts of the problem by name."""
        return dict(self.facts)


def claim_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a claim."""
    return _problem(code, "ResourceClaim", key, uid, facts)


def pod_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a pod."""
    return _problem(code, "Pod", key, uid, facts)


def template_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a ResourceClaimTemplate."""
    return _problem(code, "ResourceClaimTemplate", key, uid, facts)


def node_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a Node, which has no namespace."""
    return _problem(code, "Node", ("", name), uid, facts)


def reservation_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a Reservation, which has no namespace."""
    return _problem(code, "Reservation", ("", name), uid, facts)


def migration_problem(code: ProblemCode, *, name: str, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a PodMigrationJob, which has no namespace."""
    return _problem(code, "PodMigrationJob", ("", name), uid, facts)


def config_map_problem(code: ProblemCode, *, key: Key, uid: Uid, **facts: str | int) -> Problem:
    """Return a problem of a ConfigMap."""
    return _problem(code, "ConfigMap", key, uid, facts)


def pool_problem(code: ProblemCode, *, driver: str, pool: str, **facts: str | int) -> Problem:
    """Return a problem of a driver's pool of devices, which is no object of its own."""
    return _problem(code, "Pool", ("", f"{driver}/{pool}"), NO_UID, {"driver": driver, **facts})


def upgrade_problem(subject: Subject, *, cause: str) -> Problem:
    """Return a problem of an object, or of a driver, that a newer version of Kubernetes takes otherwise."""
    return _problem(ProblemCode.UPGRADE_OBSTACLE, subject.kind, subject.key, subject.uid, {"cause": cause})


def controller_problem(code: ProblemCode, *, lease: str, **facts: str | int) -> Problem:
    """Return a problem of the whole cluster; `lease` is NAMESPACE/NAME of the Lease of dra-reserve's controller."""
    namespace, _, name = lease.partition("/")
    return _problem(code, "Lease", (namespace, name), NO_UID, facts)


def deployment_problem(code: ProblemCode, *, key: Key, **facts: str | int) -> Problem:
    """Return a problem of a Deployment of dra-reserve, which concerns the whole cluster."""
    return _problem(code, "Deployment", key, NO_UID, facts)


def _problem(code: ProblemCode, kind: str, key: Key, uid: Uid, facts: dict[str, str | int]) -> Problem:
    named = {"namespace": key[0], "name": key[1], "uid": uid} | facts
    return Problem(code=code, subject=Subject(kind=kind, key=key, uid=uid), facts=tuple(named.items()))
