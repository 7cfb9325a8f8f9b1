"""The codes of all problems that ``kubectl dra explain`` reports for one object and ``audit`` for all objects.

A code that is also the reason of an Event has the same word and the same guidance in both.
"""

from enum import StrEnum
from typing import Final

from dra.engine.claims.codes import Code
from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import UNEXPLAINED, ExplainedReason, Guidance, KeepsDevices

_EXPLAIN_COMMAND: Final = "the command that `kubectl dra explain claim NAME -n NAMESPACE` shows"


class ProblemSeverity(StrEnum):
    """The severity of a problem, derived from its code."""

    ERROR = "error"  # devices may be used twice, or a component does nothing
    LEAK = "leak"  # devices are not available to other claims
    WARNING = "warning"
    INFO = "info"


_Declaration = tuple[str, Guidance, ProblemSeverity]


def _explain(
    word: str,
    meaning: str,
    cause: str,
    remedy: str,
    keeps_devices: KeepsDevices = KeepsDevices.NO,
    severity: ProblemSeverity = ProblemSeverity.WARNING,
) -> _Declaration:
    return word, Guidance(meaning, cause, remedy, keeps_devices), severity


def _as_event(code: Code, severity: ProblemSeverity = ProblemSeverity.WARNING) -> _Declaration:
    return code.value, code.guidance, severity


class ProblemCode(ExplainedReason):
    """The code of a kind of problem; the set is closed, and the command line has the words for each code."""

    severity: ProblemSeverity

    def __init__(self, _: str, __: Guidance = UNEXPLAINED, severity: ProblemSeverity = ProblemSeverity.WARNING) -> None:
        self.severity = severity

    # Damage: two pods may have one device, or a pod uses a device that is not allocated to its claim.
    HELD_TWICE = _as_event(Code.DEVICE_HELD_TWICE, ProblemSeverity.ERROR)
    ALLOCATION_LOST = _as_event(Code.ALLOCATION_LOST, ProblemSeverity.ERROR)
    OFF_ALLOCATION = _as_event(Code.POD_OFF_ALLOCATION, ProblemSeverity.ERROR)
    UNGUARDED = _explain(
        "Unguarded",
        "Pods use the claim, but status.reservedFor has no entry that stands for the pods.",
        "A controller was stopped during its work, or a user edited the list.",
        "Start the controller, which adds the pods at once. `kubectl get pods -n dra-reserve` shows whether it runs.",
        KeepsDevices.YES,
        severity=ProblemSeverity.ERROR,
    )
    # Leaks: devices that no pod uses and no other claim can get.
    NOT_FREED = _explain(
        "NotFreed",
        "Nothing keeps the claim's devices, but the claim is still allocated.",
        "No controller works: it is stopped, is not the leader, or may not write.",
        "Start the controller, or deallocate the claim with " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
        severity=ProblemSeverity.LEAK,
    )
    FREED_SOON = _explain(
        "FreedSoon",
        "Nothing keeps the claim's devices, and a controller runs.",
        "The last pod has ended a moment ago. After its start, and for a guard entry of an earlier process (Event "
        "`GuardFound`), a controller waits up to 120 s before it deallocates.",
        "Nothing; if this stays for minutes, read the controller's log: it may lack the right to write the claim.",
        KeepsDevices.YES,
        severity=ProblemSeverity.INFO,
    )
    LEFT_OVER = _explain(
        "LeftOver",
        "The claim is allocated, but no pod uses it and status.reservedFor is empty.",
        "A scheduler allocated the claim for a pod that could then not be bound. The next pod that uses the claim "
        "gets the devices.",
        "Nothing; to free the devices earlier, run " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
        severity=ProblemSeverity.LEAK,
    )
    KEPT_BY_OTHERS = _as_event(Code.KEPT_BY_OTHERS, ProblemSeverity.LEAK)
    VANISHED = _as_event(Code.PODS_VANISHED, ProblemSeverity.INFO)
    NODE_LOST = _as_event(Code.NODE_LOST, ProblemSeverity.LEAK)
    IN_DOUBT = _as_event(Code.IN_DOUBT, ProblemSeverity.LEAK)
    RELEASE_WAITS = _as_event(Code.RELEASE_WAITS, ProblemSeverity.LEAK)
    DELETION_WAITS = _as_event(Code.DELETION_WAITS, ProblemSeverity.LEAK)
    ZOMBIE_CLAIM = _explain(
        "ZombieClaim",
        "A claim was generated for a pod that no longer exists.",
        "The controller that generates claims from templates did not run when the pod ended, or a finalizer was kept.",
        "Delete the claim with " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
        severity=ProblemSeverity.LEAK,
    )
    OWNERLESS = _explain(
        "GeneratedClaimWithoutOwner",
        "A claim was generated from a template, but has no owner: no component deletes it.",
        "The claim was restored from a backup without its owner reference, while each restored pod gets a new claim. "
        "Or a user removed the owner reference.",
        f"Delete the claim if no pod names it; see {page_url('how-to/backup-and-restore.md')}.",
    )
    FINALIZER_LEFT = _explain(
        "FinalizerLeft",
        "Only a finalizer keeps a deleted claim, which has no devices.",
        "No claim controller runs that would remove the finalizer.",
        "Start a claim controller, or run " + _EXPLAIN_COMMAND + ".",
        severity=ProblemSeverity.LEAK,
    )
    FINALIZER_FOREIGN = _explain(
        "ForeignFinalizer",
        "A finalizer of another project keeps a deleted claim.",
        "Another controller must finish its work for the claim, and does not, or was uninstalled.",
        "Ask the owner of that controller: if the finalizer is removed by hand, its work is never done.",
    )
    STALE_ENTRIES = _explain(
        "StaleEntries",
        "Pods that have ended are still in status.reservedFor.",
        "No controller works, or it has not processed the claim yet.",
        "Start the controller; `kubectl dra audit --settle 5s` looks twice and reports only what lasts.",
        KeepsDevices.YES,
    )
    TOMBSTONES = _explain(
        "Tombstones",
        "Entries stand for finished pods whose objects are deleted.",
        "Mode `alongside` leaves such entries where the stock controller would list the pods again.",
        "Nothing: a controller removes the entries.",
        KeepsDevices.YES,
        severity=ProblemSeverity.INFO,
    )
    MARKS_LEFT = _explain(
        "MarksLeft",
        "The claim has annotations of dra-reserve about a former allocation.",
        "Another program deallocated the claim while the controller was off.",
        "Start the controller, or remove the annotations with " + _EXPLAIN_COMMAND + ".",
    )
    IDLE = _explain(
        "ReservedIdle",
        "The claim is reserved for a workload that has no pods now.",
        "The workload is scaled to zero, or between two runs, and keeps its devices meanwhile.",
        "Nothing. The claim is deallocated when the workload ends, or when its controller removes its entry.",
        KeepsDevices.YES,
        severity=ProblemSeverity.INFO,
    )
    KEPT_WHILE_SUSPENDED = _as_event(Code.KEPT_WHILE_SUSPENDED)
    WAITS_FOR_ITSELF = _explain(
        "WorkloadWaitsForItself",
        "A claim is kept for a workload, and pods of the same workload wait for such devices: the workload waits for "
        "itself.",
        "The workload has stopped using the claim, for example after a rollout to another claim, or a part of it with "
        "a claim of its own has ended. The claim is released when the whole workload ends.",
        "If no further pod of the workload uses the claim, release it (`kubectl dra release --help`). Otherwise the "
        "workload needs more devices.",
        KeepsDevices.YES,
        severity=ProblemSeverity.LEAK,
    )
    # Annotations and references that do not have the intended effect.
    MALFORMED = _as_event(Code.MALFORMED_REFERENCE)
    RESERVATION_IGNORED = _as_event(Code.RESERVATION_IGNORED)
    WORKLOAD_NOT_FOUND = _as_event(Code.WORKLOAD_PENDING)
    WRONG_UID = _as_event(Code.WORKLOAD_GONE)
    KIND_UNKNOWN = _as_event(Code.WORKLOAD_UNKNOWN_KIND)
    FORCE_IGNORED = _as_event(Code.FORCE_RELEASE_IGNORED)
    FORCE_BLOCKED = _as_event(Code.FORCE_RELEASE_BLOCKED)
    UNKNOWN_ANNOTATION = _as_event(Code.UNKNOWN_ANNOTATION)
    # Allocations that pods cannot use.
    NODE_CORDONED = _explain(
        "AllocationOnCordonedNode",
        "Pods wait for devices on nodes that accept no new pods.",
        "The node was cordoned, for example to drain it.",
        "Wait: an allocation that no pod can use is taken back. The person who cordoned the node decides when it "
        "accepts pods again.",
        KeepsDevices.YES,
    )
    NODE_MAY_BE_DELETED = _as_event(Code.NODE_MAY_BE_DELETED)
    NODE_STAYS_ANNOTATED = _explain(
        "NodeStaysAnnotated",
        "Annotations of dra-reserve keep a node from autoscalers, but no claim is kept on the node.",
        "The controller is off, or lacks the permission to patch nodes: `annotateNodes` was disabled together with it.",
        "Start a controller with that permission, which removes its annotations whether `annotateNodes` is on or off "
        f"({page_url('how-to/switching-off.md')}), or remove the annotations by hand.",
    )
    STUCK = _as_event(Code.ALLOCATION_STUCK)
    DEVICE_GONE = _explain(
        "DeviceGone",
        "The claim has a device that no driver publishes any longer.",
        "The node is gone, the driver does not run, or the device was removed.",
        "Check the driver on that node: `kubectl get resourceslices`. If the device is gone for good, end the pods.",
        KeepsDevices.YES,
    )
    DEVICE_TAINTED = _explain(
        "DeviceTainted",
        "The device has a taint that evicts pods.",
        "The driver or a DeviceTaintRule marks the device as broken, or wants it freed.",
        "Nothing: the pods are evicted. To find the rule: `kubectl get devicetaintrules`.",
        KeepsDevices.YES,
    )
    DEVICE_IMPAIRED = _explain(
        "DeviceImpaired",
        "The driver marks a device that pods use as impaired; no pod is evicted for it.",
        "The device had an error, such as an XID of a GPU, after it was allocated.",
        "End the pods as soon as their work may be interrupted; the claim then gets another device. The taint ends "
        "when the driver takes it off.",
        KeepsDevices.YES,
    )
    DEVICE_CLOSED = _explain(
        "DeviceClosed",
        "A DeviceTaintRule keeps a device that pods use from further claims.",
        "An administrator wants the device freed, or previews a taint.",
        "Nothing: the pods go on. To find the rule: `kubectl get devicetaintrules`.",
        KeepsDevices.YES,
        severity=ProblemSeverity.INFO,
    )
    DEVICE_CONDITION = _explain(
        "DeviceConditionFalse",
        "A driver reports for an allocated device that its condition Ready, Healthy or Available is False.",
        "The driver could not configure the device, or the device failed.",
        "Read the message of the condition in `status.devices` of the claim.",
        KeepsDevices.YES,
    )
    LIST_FULL = _as_event(Code.CONSUMER_LIMIT)
    TIMELESS = _explain(
        "NoAllocationTimestamp",
        "The allocation has no timestamp.",
        "Kubernetes writes the timestamp from 1.36 on.",
        "Nothing; a controller that restarts may be uncertain, and then keeps the claim reserved.",
        KeepsDevices.YES,
        severity=ProblemSeverity.INFO,
    )
    # Pools whose devices cannot be allocated.
    POOL_INCOMPLETE = _explain(
        "PoolIncomplete",
        "No device of a driver's pool can be allocated: slices of its newest generation are missing.",
        "The driver updates the pool, died between two slices, or counts its slices wrong.",
        "Wait for a minute; then restart the driver's plugin. To see the slices: `kubectl get resourceslices`.",
    )
    POOL_INVALID = _explain(
        "PoolInvalid",
        "No device of a driver's pool can be allocated: its slices contradict each other.",
        "The driver publishes two devices or counter sets of one name, or a device that consumes unknown counters.",
        "Report this to the driver's author. To see the slices: `kubectl get resourceslices`.",
    )
    # Stored objects that a newer version of Kubernetes takes otherwise.
    NEGATIVE_SHARE = _explain(
        "NegativeConsumedCapacity",
        "The allocation of a claim consumes less than nothing of a shared device.",
        "A client with permission to write allocations wrote this one; up to 1.37 the API server accepts it.",
        "End the pods of the claim and delete the claim. While it exists, kube-scheduler 1.38 places no pod with "
        "claims, and up to 1.37 the device is given to more claims than it has room for.",
        KeepsDevices.YES,
        severity=ProblemSeverity.ERROR,
    )
    UPGRADE_OBSTACLE = _explain(
        "UpgradeObstacle",
        "A stored object, or a driver, does what Kubernetes 1.38 refuses.",
        "Up to 1.37 the API server accepts it. What is stored stays readable, and is refused when it is changed.",
        f"Before the upgrade, change the object or upgrade the driver: {page_url('how-to/upgrade.md')}"
        "#before-kubernetes-138.",
    )
    # No controller does the work.
    NO_CONTROLLER = _explain(
        "NoController",
        "Work is pending, but no controller of dra-reserve is known to run.",
        "The controller is not installed, is scaled to zero, is paused for a downgrade, or has no leader.",
        "Start the controller. `kubectl get pods -n dra-reserve` shows its pods, `kubectl dra preflight` what "
        "prevents it from working.",
    )
    NOT_ENTERED = _explain(
        "NotEntered",
        "Pods use a claim that is reserved for their workload, but status.reservedFor has no entry of the workload.",
        "No controller of dra-reserve is known to run: the claim is reserved only for the pods in the list.",
        "Start the controller, which adds the workload within a second.",
    )
    NO_REPLICA_READY = _explain(
        "NoReplicaReady",
        "A component of dra-reserve is installed, and none of its replicas has been Ready for a minute.",
        "The image cannot be pulled, the process ends at its start, it lacks a permission, or no node has room for it. "
        "Or the controller was scaled to zero.",
        "Read what its pods wait for: `kubectl describe pods -n NAMESPACE -l app.kubernetes.io/name=dra-reserve`. "
        "`kubectl dra preflight` names permissions and certificates that are missing.",
        severity=ProblemSeverity.ERROR,
    )
    REPLICAS_NOT_READY = _explain(
        "ReplicasNotReady",
        "Some replicas of a component of dra-reserve are not Ready, and its Deployment has not been Available for a "
        "minute. The other replicas do the work.",
        "The nodes of these replicas are lost or full, or the image cannot be pulled there.",
        "Read what its pods wait for: `kubectl describe pods -n NAMESPACE -l app.kubernetes.io/name=dra-reserve`.",
    )
    # Pods that make no progress.
    NODE_NOT_READY = _explain(
        "NodeNotReady",
        "The pod is bound to a node that is not ready.",
        "The node is off, or cannot reach the API server.",
        "Bring the node back. If you delete the pod, its controller creates another one elsewhere, while this pod "
        "may run until its node responds.",
    )
    BOUND_WITHOUT_ALLOCATION = _as_event(Code.BOUND_WITHOUT_ALLOCATION)
    PREPARE_REFUSED = _as_event(Code.PREPARE_REFUSED)
    NOT_PREPARED = _explain(
        "DevicesNotPrepared",
        "A pod is bound, and its kubelet has not prepared its devices or its sandbox.",
        "The driver's plugin does not run on the node, has not registered, or refuses the claim.",
        "Read the message, and the log of the plugin on that node. The kubelet tries again by itself.",
        KeepsDevices.YES,
    )
    CONTAINER_NOT_RUNNING = _explain(
        "ContainerNotRunning",
        "A pod has devices, and one of its containers does not run.",
        "The runtime does not know the CDI device, the image cannot be pulled, or the process ends again and again.",
        "Read the message: `kubectl describe pod -n NAMESPACE NAME`.",
        KeepsDevices.YES,
    )
    DEVICE_UNHEALTHY = _explain(
        "DeviceUnhealthy",
        "The kubelet reports a device of a container as unhealthy (`allocatedResourcesStatus`, Kubernetes 1.36).",
        "The driver has reported an error of the device to the kubelet.",
        "End the pod as soon as its work may be interrupted; its next claim gets another device.",
        KeepsDevices.YES,
    )
    TERMINATING = _explain(
        "TerminatingOnLostNode",
        "The pod is being deleted, but its node is not ready and cannot end it.",
        "The node is off, or cannot reach the API server; the pod's containers may still run there.",
        "Bring the node back: the pod ends then. If its machine is certainly off, a cluster administrator can "
        "taint it `node.kubernetes.io/out-of-service`, which ends all its pods; deleting the pod again has no "
        "effect.",
        KeepsDevices.YES,
    )
    UNLISTED = _explain(
        "NotListed",
        "The pod is bound, but the claim's status.reservedFor does not list it: the kubelet refuses the pod.",
        "No controller works, or the list is full.",
        "Start the controller, which adds the pod at once. Without a controller of dra-reserve, delete the pod, "
        "so that the scheduler lists the next one.",
    )
    GATED = _explain(
        "GateWithoutController",
        "The pod has the scheduling gate of dra-reserve, and no controller is known to remove it.",
        "No controller works, or its lease cannot be read.",
        "Start the controller, or remove the gate with the command that `kubectl dra explain pod NAME` shows.",
    )
    GATE_UNKNOWN = _explain(
        "GatedAsUsual",
        "A pod waits behind the scheduling gate of dra-reserve, and you may not read the controller's Lease.",
        "The controller removes the gate once the pod is in the claim's list, within seconds.",
        "Nothing; if the pods wait for minutes, ask a cluster administrator whether the controller runs.",
        severity=ProblemSeverity.INFO,
    )
    GATED_BY_OTHERS = _explain(
        "GatedByOthers",
        "The pod has scheduling gates of other projects.",
        "A queue, for example Kueue, has not admitted the pod yet.",
        "Ask the owner of the gate: `kubectl describe pod NAME -n NAMESPACE`.",
        severity=ProblemSeverity.INFO,
    )
    NOT_ADMITTED = _explain(
        "NotAdmittedByKueue",
        "The pod names a claim and waits for its admission by Kueue.",
        "Kueue 0.18 and later admits no workload with a pod that names a claim, unless its feature gates for DRA are "
        "disabled.",
        "Create the pod without the label `kueue.x-k8s.io/queue-name`, or use a ResourceClaimTemplate; "
        f"see {page_url('how-to/kueue.md')}.",
    )
    CLAIM_MISSING = _explain(
        "ClaimMissing",
        "The pod uses a claim that does not exist.",
        "The claim was never created, was deleted, or its name is misspelled.",
        "Create the claim; a pod with a wrong name must be created again.",
    )
    CLAIM_NOT_MADE = _explain(
        "ClaimNotMade",
        "The pod waits for a claim that is generated from a template.",
        "A claim controller creates the claim within seconds. None works (neither kube-controller-manager's nor "
        "dra-reserve's in mode `replace`), or the API server refuses the claim, for example because of a quota.",
        "Read the Events of the pod: `kubectl describe pod NAME -n NAMESPACE`. If they do not mention the claim, "
        "start a claim controller: `kubectl dra preflight` shows what it finds.",
    )
    TEMPLATE_MISSING = _explain(
        "TemplateMissing",
        "The pod uses a template that does not exist.",
        "The template was never created, was deleted, or its name is misspelled.",
        "Create the template: `kubectl get resourceclaimtemplates -n NAMESPACE` lists the existing ones.",
    )
    CLAIM_DELETING = _explain(
        "ClaimDeleting",
        "The pod uses a claim that is being deleted; no new pod can use the claim.",
        "The claim was deleted while pods still use it.",
        "Wait until the claim is gone and create it again, or change the pods to use another claim.",
    )
    REQUEST_TEMPLATE_MISSING = _explain(
        "RequestTemplateMissing",
        "The pod's request in Koordinator's form has become an entry, but the template of the entry does not exist.",
        "The controller makes such templates: it does not run, runs without `koordinator: true`, lacks the permission, "
        "or the request is a part of a card's memory and no node publishes cards for shares.",
        f"Read the Events of the pod; see {page_url('how-to/koordinator.md')}.",
    )
    NAMESPACE_NOT_ENABLED = _explain(
        "NamespaceNotEnabled",
        "The pod requests CPUs or GPUs in Koordinator's form, in a namespace whose requests are not translated.",
        "The namespace lacks the label `reserve.dra/koordinator=enabled`.",
        "Nothing if Koordinator's scheduler serves the pod; else label the namespace and create the pod again.",
        severity=ProblemSeverity.INFO,
    )
    NOT_TRANSLATED = _explain(
        "RequestNotTranslated",
        "The pod's request in Koordinator's form was not translated, although the namespace of the pod is enabled.",
        "The pod was created before the label, or while the policies of component koordinator were not installed.",
        f"Create the pod again; see {page_url('how-to/koordinator.md')}.",
    )
    UNSATISFIABLE = _explain(
        "Unsatisfiable",
        "No node can ever satisfy the claim as it is.",
        "The device class does not exist, a selector does not compile, or the claim requests more than any node has.",
        "Correct what the text names: `kubectl get deviceclasses` and `kubectl dra get devices` show what exists.",
    )
    AWAITS_BINDING = _explain(
        "AwaitsBindingConditions",
        "The scheduler has chosen a node and devices, and waits for a device before it binds the pod.",
        "The device has `bindingConditions`, for example until it is attached to the node, and its driver has not yet "
        "reported all of these. After `bindingTimeout` (10 minutes) the scheduler tries other devices.",
        "Wait; if it lasts, look at the driver of the device and at the claim's `status.devices`.",
    )
    BINDING_FAILED = _explain(
        "BindingConditionFailed",
        "A device reports that the pod cannot be bound to it.",
        "One of the device's `bindingFailureConditions` is true. The scheduler frees the claim and tries again, "
        "perhaps with the same device.",
        "Read the condition, and taint the device if it is broken, so that claims get other devices.",
    )
    POD_TOO_LARGE = _explain(
        "PodTooLarge",
        "A pod requests more CPU, memory or storage than any node has.",
        "The request is meant for a larger machine, or is a mistake, such as 500 for 500m.",
        "Correct the request in the pod template, or add larger nodes.",
    )
    NOT_TRIED = _explain(
        "NotTried",
        "Some nodes can run the pod, but the pod is not bound.",
        "Its scheduler has not tried the pod yet, does not run, or has a rule that dra-reserve does not know.",
        "Check `spec.schedulerName`, and whether that scheduler runs: its Lease was renewed within the last 15 s "
        "(`kubectl get lease -n kube-system -o yaml`: renewTime).",
    )
    REFUSED = _explain(
        "RefusedByScheduler",
        "The scheduler finds no node, for a reason that nodes, devices and claims do not show.",
        "Affinity between pods, volumes, a quota or a plugin of the scheduler excludes the nodes.",
        "Read the scheduler's message: `kubectl describe pod NAME -n NAMESPACE`.",
    )
    UNSCHEDULABLE = _explain(
        "Unschedulable",
        "No node can run the pod at present.",
        "Each group of nodes in the output shows what excludes the nodes, and which claims have the devices.",
        "Follow the lines `next` and `do`, if there are any; else wait for the claims in the output, or add nodes.",
    )
    # Reservations.
    OPEN_TO_ALL = _explain(
        "OwnersOfAnyNamespace",
        "Pods of every namespace can use the Reservation.",
        "An owner has neither a namespace nor the uid of a pod. Names, labels and owner references are written by "
        "the creator of a pod, so tenants of other namespaces can take what is reserved.",
        "Set the namespace: `object.namespace`, also together with `labelSelector`, or `controller.namespace`. To "
        "make the API server reject such owners: `reservations.ownersOfAnyNamespace: Deny` in the chart's values.",
        severity=ProblemSeverity.INFO,
    )
    RESERVED_CAPACITY_SHORT = _explain(
        "ReservedCapacityShort",
        "A node has less than its pods and Reservations take: owner pods may find no room in their Reservation.",
        "Pods were resized in place or bound without the extender; or the node's allocatable has shrunk, or its "
        "annotation `node.koordinator.sh/reservation` keeps more than before. The output says which.",
        "Resize or delete the pods in the output; or give the node back what it had; or delete a Reservation.",
    )
    # Migrations.
    NO_DESCHEDULER = _explain(
        "NobodyMigrates",
        "A PodMigrationJob waits, but no descheduler of dra-reserve is known to run.",
        "The descheduler is not installed, is scaled to zero, or has no leader: its Lease is absent or expired.",
        "Start the descheduler: component `descheduler` of `kubectl dra install --help`, or `descheduler.enabled` in "
        "the chart's values. It continues each job where it stands, as long as the job's ttl has not passed.",
    )
    MIGRATION_PAUSED = _explain(
        "MigrationPaused",
        "A PodMigrationJob is paused: no further step of the migration is begun.",
        "`spec.paused` of the job is true. Its ttl goes on.",
        "Set `spec.paused` to false to continue, or delete the job: `kubectl edit podmigrationjob NAME`.",
        severity=ProblemSeverity.INFO,
    )
    MIGRATION_UNAPPROVED = _explain(
        "MigrationNotApproved",
        "A PodMigrationJob of the descheduler waits for a person: nothing is reserved, and no pod is evicted.",
        "`approval: Required` in the arguments of MigrationController. The ttl of the job goes on.",
        "Approve or reject the migration (`kubectl dra approve --help`); if it is rejected, the pod stays. Without an "
        "answer the job ends with its ttl.",
        severity=ProblemSeverity.INFO,
    )
    BUDGET_FORBIDS_MIGRATION = _explain(
        "BudgetForbidsMigration",
        "A disruption budget allows no eviction although all pods that it counts are healthy: waiting does not help.",
        "The budget has `maxUnavailable: 0`, or a `minAvailable` as large as the number of pods.",
        "The owner of the application decides: one pod more than `minAvailable`, or a budget that allows an eviction. "
        "Until then the migration waits, and ends with its ttl.",
    )
    # Colocation: what nodes use, and the batch resources made of it.
    NOT_SAMPLED = _explain(
        "NodeNotSampled",
        "Colocation is on for the node, but the use of the node is unknown: its NodeMetric is missing, too old, or "
        "incomplete.",
        "The kubelet plugin of the node is down, runs without `--colocation`, has just started (it reports after half "
        "of the window, 150 s), may not write its NodeMetric, or its clock is behind.",
        "Read the log of the plugin's pod on that node. Batch pods there keep running: what they hold stays offered, "
        f"and the node takes no more; see {page_url('how-to/colocation.md')}.",
    )
    BATCH_BELOW_HELD = _explain(
        "BatchResourceBelowHeld",
        "The Node offers less of a batch resource than pods on it request.",
        "The controller that computes batch resources is down or switched off, or another manager writes the same "
        "Node. A kubelet that restarts admits its pods again, and fails those for which the resource does not suffice.",
        "Start the controller with `colocation: true`, and let one manager alone write batch resources.",
    )
    BATCH_REFUSED = _explain(
        "BatchPodRefused",
        "The kubelet refused a pod, because the node offered too little of a batch resource when it arrived.",
        "The node's other pods began to use more between the scheduler's decision and the kubelet's.",
        "Nothing where a controller owns the pod: it makes another one. A pod without a controller must be created "
        "again.",
    )
    BATCH_FRACTION = _explain(
        "BatchRequestFraction",
        "A container requests a fraction of a milli-CPU.",
        "`kubernetes.io/batch-cpu` counts milli-CPUs: `200m` means 0.2 milli-CPUs, not 200.",
        "Write whole numbers without a suffix: 200 for a fifth of a CPU. The kubelet plugin treats such a pod as one "
        "that requests 1.",
    )
    COLOCATION_CONFIG_INVALID = _explain(
        "ColocationConfigInvalid",
        "A key of the ConfigMap slo-controller-config, or one of its nodeConfigs, cannot be used.",
        "It is not JSON, a field is unknown or out of range, or a selector is malformed or empty. The text names the "
        "key and the nodeConfig.",
        "Correct it. Processes that run keep the last valid value of that key, also for nodes that match a nodeConfig "
        "which is at fault.",
    )
    NODE_CONFIGS_OVERLAP = _explain(
        "NodeConfigsOverlap",
        "Several nodeConfigs, or nodeStrategies, of one key select the same node.",
        "Their selectors overlap. As in Koordinator, the first in the list counts, whole; the others are not merged.",
        "Correct the selectors if another one is meant; `kubectl dra explain node NAME` shows which one counts.",
    )
