"""The codes of reasons of claims and pods: each is declared with its word, its texts and its guidance, here alone.

A text continues after the object: the problem, what stays unchanged, and what to do. Texts and remedies may name only
commands that exist. ``NAME`` and ``NAMESPACE`` in a remedy stand for the name and namespace of the object.
"""

from typing import Final

from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import UNEXPLAINED, ExplainedReason, Guidance, KeepsDevices
from dra.model.event_type import EventType

_RELEASE: Final = (
    "If you are certain that no process uses the devices, you can release the claim (`kubectl dra release --help`). "
    "If a pod still uses the devices, two pods then share them."
)

_Declaration = tuple[str, Guidance, EventType, str]


def _normal(
    word: str, text: str, meaning: str, cause: str, remedy: str, keeps_devices: KeepsDevices = KeepsDevices.NO
) -> _Declaration:
    return word, Guidance(meaning, cause, remedy, keeps_devices), EventType.NORMAL, text


def _warning(
    word: str, text: str, meaning: str, cause: str, remedy: str, keeps_devices: KeepsDevices = KeepsDevices.NO
) -> _Declaration:
    """Declare a reason that needs the user's attention."""
    return word, Guidance(meaning, cause, remedy, keeps_devices), EventType.WARNING, text


class Code(ExplainedReason):
    """Machine-readable reasons in CamelCase, as Event reasons are. The set is closed; metric labels use it."""

    severity: EventType
    text: str
    """Text without the object, as Events carry it; a template until numbers are filled in."""

    def __init__(
        self, _: str, __: Guidance = UNEXPLAINED, severity: EventType = EventType.NORMAL, text: str = ""
    ) -> None:
        self.severity, self.text = severity, text

    WORKLOAD_ENTERED = _normal(
        "ReservedForWorkload",
        "is reserved for {workload}: any pod that references the claim may use it",
        "The claim's list has the entry of its workload: any number of the workload's pods may use the claim.",
        "The claim was allocated while a pod of the workload waited or ran.",
        "Nothing to do.",
        KeepsDevices.YES,
    )
    LIST_WINDOWED = _normal(
        "ListWindowed",
        "is used by {consuming} pods: starting pods are listed, and a guard entry keeps the claim allocated for the "
        "others",
        "Not all pods that use the claim are in its list: starting pods are, and a guard entry stands for the others.",
        "More than 240 pods use the claim at a time.",
        "Nothing to do.",
        KeepsDevices.YES,
    )
    WORKLOAD_RELEASED = _normal(
        "WorkloadReleased",
        "is no longer reserved for {workload}, which {cause}",
        "The controller removed the entry of the workload. The claim is deallocated as soon as no pod uses it.",
        "The workload finished, satisfies a release rule, or was deleted.",
        "Nothing to do.",
    )
    OWNER_RELEASED = _normal(
        "OwnerReleased",
        "was released by the controller of {workload}; the claim is deallocated when its last pod ends",
        "The workload's own controller released the claim.",
        "That controller removed its entry from `status.reservedFor`; the entry is not restored for this allocation.",
        "Nothing to do.",
    )
    RELEASE_WAITS = _normal(
        "ReleaseWaitsForPods",
        "{workload} {cause}, but {pods} unfinished pods reference the claim; it stays reserved until the last pod ends",
        "The workload ended, but unfinished pods still reference the claim.",
        "Pods can outlive their workload: they shut down slowly, their node does not respond, or another client "
        "created them.",
        "Wait for the counted pods; `kubectl dra explain claim NAME -n NAMESPACE` lists them with their owners. "
        "Deleting a pod ends its work.",
        KeepsDevices.YES,
    )
    DEALLOCATED = _normal(
        "Deallocated",
        "was deallocated: {cause}",
        "The devices of the claim are free.",
        "No pod used the claim, and its reservation had ended.",
        "Nothing to do.",
    )
    DEALLOCATION_WAITS = _normal(
        "DeallocationWaits",
        "is used by no pod, but a scheduler may still bind a pod to it ({pods} known); the claim stays allocated for "
        "up to {seconds} s",
        "No pod uses the claim, but a scheduler may still bind a pod that was recently listed or admitted.",
        "A scheduling cycle that began earlier may still run. The wait is one minute, or 21 minutes if pods are "
        "nominated or wait for volumes.",
        "Wait.",
        KeepsDevices.YES,
    )
    LEADER_CHANGED = _normal(
        "DeallocationWaitsForLeader",
        "is deallocated in {seconds} s: until then, late writes of the previous leader may arrive",
        "The claim is about to be deallocated. The new leader waits until no write of the previous leader can arrive.",
        "The controller was restarted, or another replica became the leader.",
        "Wait ten seconds.",
        KeepsDevices.YES,
    )
    WORKLOAD_PENDING = _normal(
        "WorkloadNotFound",
        "{workload} does not exist yet; the claim is reserved once the workload is created",
        "The workload does not exist yet. The claim is reserved once the workload is created.",
        "The claim was created first, or the annotation names another object than the running workload.",
        "Create the workload, or correct the annotation `reserve.dra/reserved-for`.",
    )
    WORKLOAD_GONE = _normal(
        "WorkloadGone",
        "is not reserved: {workload} with uid {expected} was deleted, so pods use the claim without a reservation. "
        "To reserve the claim for another object, correct annotation reserve.dra/reserved-for-uid",
        "The object with the uid that the claim names was deleted. The claim is not reserved.",
        "The workload was deleted, and perhaps created again with the same name: the uid counts, not the name.",
        "To reserve the claim for another object, correct `reserve.dra/reserved-for-uid`.",
    )
    WORKLOAD_UNREADABLE = _warning(
        "WorkloadUnreadable",
        "{workload} cannot be checked: the controller has no permission to get, list and watch {kind}; the claim stays "
        "reserved. Grant the permission as ClusterRole dra-reserve-workload-reader does for other kinds",
        "The controller cannot check whether the workload has ended. The claim stays reserved.",
        "The controller has no permission to get, list and watch that kind.",
        "Grant the permission as ClusterRole `dra-reserve-workload-reader` does for other kinds; "
        "`kubectl dra preflight` reports other missing permissions.",
        KeepsDevices.YES,
    )
    WORKLOAD_UNKNOWN_KIND = _warning(
        "WorkloadKindUnknown",
        "{workload} cannot be checked: the API server does not serve {kind}; the claim stays reserved. Correct the "
        "reference, or install the CRD. See: kubectl api-resources",
        "The API server does not serve the kind of the workload. A reserved claim stays reserved.",
        "The annotation has a typing error, or the CRD of the kind is not installed.",
        "Correct the annotation, or install the CRD; `kubectl api-resources` lists the kinds that are served.",
        KeepsDevices.YES,
    )
    WORKLOAD_KINDS_EXCEEDED = _warning(
        "WorkloadKindsExceeded",
        "{workload} cannot be checked: claims of namespace {namespace} refer to more than {limit} kinds of workloads, "
        "and {kind} is not watched; the claim stays reserved. Delete claims for kinds that are no longer used, or ask "
        "an administrator to add a release rule for {kind}",
        "The controller does not watch the kind of the workload, so it cannot check whether the workload has ended. "
        "The claim stays reserved.",
        "Claims of the namespace refer to more kinds of workloads than the controller watches for one namespace "
        f"({page_url('reference/limits.md')}).",
        "Delete claims for kinds that are no longer used: the next kind is then watched within a minute. Kinds with a "
        "release rule (`releaseRules` of the configuration) are always watched.",
        KeepsDevices.YES,
    )
    RULE_FAILED = _warning(
        "ReleaseRuleFailed",
        "{workload} cannot be checked: its release rule failed: {error}; the claim stays reserved until {workload} is "
        "deleted, or its controller releases the claim",
        "The release rule of the workload's kind failed for this object, so the controller cannot check whether the "
        "workload has ended. The claim stays reserved.",
        "The object is nested too deeply, or the rule takes too many iterations for it "
        f"({page_url('reference/limits.md')}).",
        "Delete the workload when it has ended, or let its controller release the claim. Make the object smaller, or "
        "the rule cheaper (`releaseRules` of the configuration).",
        KeepsDevices.YES,
    )
    KEPT_WHILE_SUSPENDED = _warning(
        "KeptWhileSuspended",
        "stays reserved for {workload}, which is suspended and has no pods: no other claim can get its devices; "
        "{advice}",
        "The workload of the claim is suspended, and the claim keeps its devices until the workload is resumed.",
        "Kueue evicted the workload, or a user suspended it. The annotation `reserve.dra/when-suspended` of the claim "
        "and `releaseSuspended` of the configuration decide whether a suspended workload keeps its devices.",
        "If the resumed workload may get other devices, set the annotation `reserve.dra/when-suspended` of the claim "
        "to `release`. If the workload needs the same devices, set the annotation to `keep`, which ends this warning.",
        KeepsDevices.YES,
    )
    IN_DOUBT = _normal(
        "ReservationInDoubt",
        "stays reserved until {workload} is deleted or can be checked: the controller does not know whether {workload} "
        "has released the claim. If you are certain that no process uses the devices, you can release the claim: "
        "kubectl dra release --help",
        "The controller does not know whether the workload has already released this allocation. It stays reserved.",
        "The allocation is older than the controller process, and the claim does not record the workload's entry.",
        "The reservation ends with the workload. " + _RELEASE,
        KeepsDevices.YES,
    )
    MALFORMED_REFERENCE = _warning(
        "MalformedReference",
        "the workload reference is ignored: {error}",
        "The annotation names no workload. Pods use the claim as if it had no annotation.",
        "`reserve.dra/reserved-for` does not have the form RESOURCE[.GROUP]/NAME, or the uid beside it is malformed.",
        "Correct the annotation, for example `reserve.dra/reserved-for: jobs.batch/train`.",
    )
    RESERVATION_IGNORED = _warning(
        "ReservationIgnored",
        "is not reserved for {workload}: the claim was generated for {user} alone, and is released with its pod. "
        "To keep devices for all pods of {workload}, create a ResourceClaim that is reserved for {workload}, and name "
        "it in the pod template by resourceClaimName; otherwise remove the reservation from the ResourceClaimTemplate",
        "The claim belongs to a single pod, so it is released with that pod. It is not reserved for the workload.",
        "A ResourceClaimTemplate has the annotation `reserve.dra/reserved-for` or the field `spec.reservedFor`, and "
        "each pod gets a claim of its own from it. Kept for the workload, the devices of ended pods would be lost to "
        "the next pods: no other pod can use these claims.",
        "To let all pods share devices, create one ResourceClaim with the annotation and name it in the pod template "
        f"(`resourceClaimName`, {page_url('how-to/reserve-a-claim.md')}). Otherwise remove the annotation from the "
        "ResourceClaimTemplate.",
    )
    UNKNOWN_ANNOTATION = _warning(
        "UnknownAnnotation",
        "annotation {annotation} has no effect: the key is unknown. Did you mean {meant}?",
        "An annotation of `reserve.dra` has a key that nothing reads.",
        "The key is misspelled, or belongs to another version of dra-reserve.",
        "Correct the key; the page Annotations of the reference lists the keys for users.",
    )
    ALLOCATION_STUCK = _warning(
        "AllocationStuck",
        "no pod can use its allocation ({cause}) and {pods} pods wait; the claim is deallocated within {seconds} s, "
        "and the scheduler then allocates it again",
        "No pod can use the allocation. The controller deallocates the claim, and the scheduler allocates it again.",
        "The nodes or devices are gone, cordoned, tainted or full, and a waiting pod could use other devices; or a "
        "device could not be bound.",
        "Nothing to do. The allocation stays if its nodes accept pods again in time. Do not lift a cordon that you did "
        "not set.",
    )
    ALLOCATION_UNUSABLE = _warning(
        "AllocationUnusable",
        "{pods} pods wait, and no node of its allocation can run any of the pods; the claim stays allocated: {why}",
        "No waiting pod can use the allocation, and deallocating the claim would help none of them. The allocation "
        "stays.",
        "The nodes are full, cordoned or gone, and no other node has both such devices and room; or a pod fits no node "
        "because of its own requests. The Event reports if the controller could not find out.",
        "Make room on the allocation's nodes, or change the pods. `kubectl dra why pod NAME -n NAMESPACE` lists the "
        "obstacles on each node.",
        KeepsDevices.YES,
    )
    ALLOCATION_LOST = _warning(
        "AllocationLost",
        "is bound to node {node}, but claim {claim} is no longer allocated, and other claims may get its devices. "
        "Delete the pod when its work can be interrupted; only a controller replaces a deleted pod",
        "A bound pod uses devices that are no longer allocated to its claim. Other claims may get these devices.",
        "Another client cleared the claim's status while the pod used the claim.",
        "Delete the pod when its work can be interrupted; only a controller replaces a deleted pod. Find the client: "
        "`kubectl get resourceclaim NAME --show-managed-fields -o yaml`.",
    )
    BOUND_WITHOUT_ALLOCATION = _warning(
        "BoundWithoutAllocation",
        "cannot start on node {node}: claim {claim} is not allocated, and no scheduler allocates a claim for a bound "
        "pod. Delete the pod, and create it without spec.nodeName for a scheduler that allocates claims; only a "
        "controller replaces a deleted pod. See: kubectl dra explain pod {name} -n {namespace}",
        "The pod is bound, but its claim has no allocation and shows no sign of an earlier one. The pod cannot start.",
        "A client set the pod's `nodeName`, or another scheduler bound the pod without allocating its claims. Rarely: "
        "the pod was bound late, after its claim was deallocated.",
        "Delete the pod. A controller creates a new pod, which is then scheduled; create a pod without a controller "
        "again yourself, without `nodeName`. If the new pod ends the same way, its scheduler does not know claims.",
    )
    POD_OFF_ALLOCATION = _warning(
        "PodOffAllocation",
        "cannot start on node {node}: the allocation of claim {claim} excludes the node. Delete the pod; only a "
        "controller replaces a deleted pod. See: kubectl dra explain pod {name} -n {namespace}",
        "The pod is bound to a node without the claim's devices. The pod is not listed and cannot start.",
        "A client set the pod's `nodeName`, or another scheduler bound the pod without considering claims.",
        "Delete the pod. A controller creates a new pod, which is then scheduled; create a pod without a controller "
        "again yourself, without `nodeName`. A Job counts the deletion as a failure (`backoffLimit`).",
    )
    SANDBOX_NOT_READY = _warning(
        "SandboxNotReady",
        "is bound to node {node} for {seconds} s without a sandbox; other pods of claim {claim} are listed first. "
        "See: kubectl describe pod {name} -n {namespace}",
        "The pod is bound but cannot start. Other pods get its place in the list meanwhile.",
        "The kubelet cannot create the sandbox: network plugin, sandbox image, container runtime, or a driver's error.",
        "Look at the Events of the pod and at its node: `kubectl describe pod NAME -n NAMESPACE`.",
    )
    CONSUMER_LIMIT = _warning(
        "ConsumerLimit",
        "{pods} pods wait for an entry: {listed} of 256 entries are in use, {finished} of them by finished pods. "
        "Beside the stock resourceclaim-controller, a pod keeps its entry until the pod is deleted: delete finished "
        "pods that are no longer needed. See: kubectl get pods -n {namespace} --field-selector status.phase=Succeeded",
        "The list is full, and pods wait for an entry.",
        "In mode `alongside`, the stock claim controller lists each pod, and finished pods keep their entries.",
        "Delete finished pods of the claim whose logs are no longer needed, or use mode `replace`.",
        KeepsDevices.YES,
    )
    WAITS_FOR_SLOT = _normal(
        "WaitsForSlot",
        "waits for an entry in claim {claim}: all 256 entries are in use. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
        "The pod waits until the list of its claim has room.",
        "A list has at most 256 entries; see `ConsumerLimit` on the claim.",
        "Delete finished pods of the claim whose logs are no longer needed, or use mode `replace`.",
    )
    LIST_TAKEN = _warning(
        "ListTakenByOthers",
        "{pods} pods wait for an entry: {taken} of 256 entries belong to other clients, and only these clients may "
        "remove the entries: {entries}",
        "Pods wait for an entry in the claim's list, and entries of other clients fill the list.",
        "Another controller lists its own objects in `status.reservedFor`, nearly 256 of them. dra-reserve never "
        "changes such entries.",
        "Ask the owner of that controller to remove unneeded entries, or use several claims.",
        KeepsDevices.YES,
    )
    STOCK_CONTROLLER_ACTIVE = _warning(
        "StockControllerActive",
        "the resourceclaim-controller of kube-controller-manager is running and restores removed entries. Add "
        "-resourceclaim-controller to --controllers of kube-controller-manager, or start this controller with --mode "
        "alongside",
        "Two controllers write the same list. dra-reserve treats this claim as in mode `alongside`.",
        "The mode is `replace`, but a kube-controller-manager still runs its resourceclaim-controller.",
        "Append `,-resourceclaim-controller` to `--controllers` of every kube-controller-manager, or use mode "
        "`alongside`. Then restart the pods of dra-reserve's controller.",
    )
    DEVICE_HELD_TWICE = _warning(
        "DeviceHeldTwice",
        "device {device} is also allocated to claim {other}. Decide which claim keeps the device, end the pods of the "
        "other claim, then delete the other claim. See: kubectl dra explain claim {claim} -n {namespace}",
        "Two claims have the same device, so their pods share a device that each expects to have alone.",
        "A client wrote or restored an allocation by hand, or a scheduler acted on old data.",
        "Decide which claim keeps the device. End the pods of the other claim, which ends their work, then delete that "
        "claim.",
        KeepsDevices.YES,
    )
    DELETION_WAITS = _normal(
        "DeletionWaitsForPods",
        "is being deleted and waits for {pods} pods that still use it",
        "The claim is being deleted. The deletion completes when the last pod that uses the claim has ended.",
        "Pods still use the claim, or may be bound at any moment.",
        "Wait for the counted pods. Deleting a pod ends its work.",
        KeepsDevices.YES,
    )
    EVICTED = _normal(
        "DeviceTaintManagerEviction",  # upstream's reason for the same case: a search finds both
        "was evicted: device {device} of claim {claim} has taint {taint} of {origin}, tolerated for {seconds} s",
        "The controller deleted the pod because its device is broken or must be freed.",
        "The device has a NoExecute taint, set by its driver or a DeviceTaintRule, that the claim does not tolerate.",
        "Nothing to do: the pod's controller creates a new pod. To let pods stay, add a toleration to the claim's "
        "request.",
    )
    GENERATION_FAILED = _warning(
        "FailedResourceClaimCreation",
        "{kind} {entry}: {error}",
        "The controller could not create a claim that a pod or PodGroup requests by a template.",
        "The template is missing, or the API server rejects the claim (quota, admission, an invalid spec).",
        "Follow the error in the Event; `kubectl get resourceclaimtemplates -n NAMESPACE` lists the templates.",
    )
    WAITS_FOR_GROUP = _warning(
        "WaitsForPodGroup",
        "waits for its claims: PodGroup {group} may request the same claims and cannot be read: {error}",
        "The pod gets no claims from templates until its PodGroup can be read.",
        "`/apis/scheduling.k8s.io` returns an error, or the controller may not list PodGroups. A PodGroup may request "
        "the same claims, which then serve all its pods. Pods without a PodGroup are not affected.",
        "Look at the error in the Event; `kubectl dra preflight` reports the missing permission.",
    )
    TEMPLATE_FAILED = _warning(
        "FailedTemplateCreation",
        "ResourceClaimTemplate {template}, which the pod names, was not created: {error}",
        "The controller could not create a ResourceClaimTemplate for a pod that requests CPUs or GPUs in Koordinator's "
        "form; it tries again.",
        "The API server rejects the template (a ResourceQuota, admission).",
        "Follow the error in the Event; the pod waits until the template exists.",
    )
    FOREIGN_TEMPLATE = _warning(
        "ForeignTemplate",
        "names ResourceClaimTemplate {template}, which lacks the label reserve.dra/made-from=koordinator: another "
        "client created the template, so it stays as it is, and the pod gets what the template requests. Delete the "
        "template to have it created from the pod's own request",
        "The template that a translated pod names was made by someone else, and may request anything.",
        "A user or a backup created a ResourceClaimTemplate under a name that dra-reserve uses, without its label.",
        "Delete the template: the controller creates it within a second while a pod names it.",
    )
    WAITS_FOR_CARDS = _warning(
        "WaitsForCards",
        "waits for ResourceClaimTemplate {template}, which is made as soon as a ResourceSlice of gpu.reserve.dra "
        "publishes a card for shares",
        "The pod requests a share of a card by percent of memory, and the cluster has no card for shares yet.",
        "No kubelet plugin runs with `--gpu-shares` on a node with GPUs, or its ResourceSlices are not published yet.",
        "Install the kubelet plugin with shares; the template follows without further steps.",
    )
    CARD_SIZES_EXCEEDED = _warning(
        "CardSizesExceeded",
        "cannot use cards of {sizes}: a claim has room for {limit} sizes of cards, and most cards of the cluster have "
        "others. A request for gpu-memory in place of gpu-memory-ratio may use all sizes",
        "The claim of the pod leaves out cards of some sizes.",
        "A percentage of memory is another number of bytes for each size of card, and a request has at most eight "
        "alternatives. The eight sizes with most cards are taken.",
        "Request bytes (`koordinator.sh/gpu-memory`) where a pod must be able to use any card.",
    )
    CLAIM_LACKS_CARD_SIZES = _warning(
        "ClaimLacksCardSizes",
        "cannot use cards of {sizes}: its claim {claim} was made before the cluster had them. Delete the pod, so that "
        "its controller creates a pod that can",
        "The pod waits for a card of the sizes that the cluster had when its claim was made.",
        "Cards of another size were added later, and in mode alongside kube-controller-manager makes the claims.",
        "Delete the pod if it should also use the new cards: the claim of its successor considers them.",
    )
    CLAIM_RENEWED = _normal(
        "ClaimRenewed",
        "gets another claim in place of {claim}, which was made before the cluster had cards of {sizes}",
        "The controller deleted the unallocated claim of a waiting pod; the pod gets a claim that considers all cards.",
        "Cards of a size that the cluster did not have were added while the pod waited (mode replace).",
        "Nothing to do.",
    )
    PREPARE_REFUSED = _warning(
        "PrepareRefused",
        "cannot start on node {node}, which refuses claim {claim} ({cause}); the claim keeps its CPUs from other pods. "
        "It is not evicted, since {obstacle}. Delete the pod, so that another node is found; only a controller "
        "replaces a deleted pod. See: kubectl describe resourceclaim -n {namespace} {claim}",
        "The pod is bound to a node whose driver refuses its claim, and the controller does not evict the pod.",
        "The claim was allocated before the driver had published what is left, or the CPUs of the node have changed; "
        "the condition `Ready` of the claim's device says which. The Event says why the pod is not evicted: it has no "
        "controller, or the claim is not its own.",
        "Delete the pod, and create it again unless a controller does: the scheduler finds another node, or the pod "
        "waits. Until then the claim keeps CPUs of the node that no pod can use.",
        KeepsDevices.YES,
    )
    EVICTED_UNPREPARED = _normal(
        "EvictedUnprepared",
        "was evicted: node {node} had refused claim {claim} for {seconds} s ({cause}), and no container had started; "
        "{owner} creates a new pod",
        "The controller evicted a pod that could not start on its node; its claim is deleted with the pod.",
        "The node's driver has refused to prepare the claim for 30 s, for example because two pods that require whole "
        "cores were scheduled at the same moment.",
        "Nothing to do: the pod's controller creates a new pod. A Job counts the eviction as a failure unless its "
        "podFailurePolicy ignores DisruptionTarget.",
    )
    NO_BOUND_CPUS = _normal(
        "NoBoundCPUs",
        "gets no CPUs of its own and no claim for CPUs: annotation {annotation} has the bind policy {word}, so the pod "
        "uses the shared CPUs of its node",
        "The pod has QoS class LSE or LSR and is not bound to CPUs.",
        "Its annotation `resource-spec` has the bind policy ConstrainedBurst, which means just that.",
        "Nothing, or name another bind policy in the pod template.",
    )
    UNKNOWN_QOS_CLASS = _warning(
        "UnknownQoSClass",
        "gets no CPUs of its own: label koordinator.sh/qosClass is {qos}, and known are {known}. Correct the label in "
        "the pod template of the workload",
        "The pod is treated as one without QoS class.",
        "Its label `koordinator.sh/qosClass` has a value that is none of Koordinator's, such as `lsr` for `LSR`.",
        "Correct the label in the pod template.",
    )
    KEPT_BY_OTHERS = _normal(
        "KeptByForeignEntries",
        "stays allocated only for entries of other controllers: {entries}. If these controllers were removed for "
        "good, you can release the claim: kubectl dra release --help",
        "Only entries of other controllers keep the claim allocated. dra-reserve does not know their meaning.",
        "Another controller reserves the claim, or did so before it was removed.",
        "Ask the owner of that controller. " + _RELEASE,
        KeepsDevices.YES,
    )
    NODE_LOST = _warning(
        "NodeLost",
        "stays reserved: pods were deleted while node {node} did not report in, and may still run there. Bring the "
        "node back: the wait ends when the node is Ready for {seconds} s, rebooted or deleted. If the machine is "
        "certainly off, a cluster administrator can set the taint node.kubernetes.io/out-of-service, which ends all "
        "pods of the node",
        "Pods vanished from a node that does not report in, and may still run there.",
        "The node is disconnected or off, and its pods were deleted by force.",
        "Bring the node back. If its machine is certainly off, an administrator can set the taint "
        "`node.kubernetes.io/out-of-service` or delete the Node: all its pods end. If the machine still runs, two pods "
        "then use one device.",
        KeepsDevices.YES,
    )
    PODS_VANISHED = _normal(
        "PodsVanished",
        "stays reserved for up to {seconds} s: {pods} pods vanished before a kubelet reported the end of their "
        "containers; the controller checks their nodes after the grace period",
        "Pods were deleted before their kubelets reported the end of their containers.",
        "The pods were deleted by force, or while no controller ran.",
        "Wait: a kubelet needs the grace period, and a node counts as Ready for up to 50 s after its last report.",
        KeepsDevices.YES,
    )
    GUARD_FOUND = _normal(
        "GuardFound",
        "stays reserved for up to {seconds} s: its list had a guard entry when the controller started, and the guard "
        "may stand for pods that were deleted by force and still run",
        "The controller started and found a guard entry in the list: pods without entries of their own used the claim.",
        "Some of these pods may have been deleted by force while no controller ran, and may still run containers.",
        "Wait for 100 s after the start; longer if the claim's node does not report in, and 190 s if the allocation "
        "reaches several nodes.",
        KeepsDevices.YES,
    )
    FORCE_RELEASED = _warning(
        "ForceReleased",
        "was released by force, as annotation reserve.dra/force-release requested; overridden: {overridden}",
        "The claim was deallocated on a user's request. The Event lists what was overridden.",
        "The annotation `reserve.dra/force-release` had the claim's uid.",
        "Nothing to do.",
    )
    FORCE_RELEASE_IGNORED = _warning(
        "ForceReleaseIgnored",
        "annotation reserve.dra/force-release is ignored: its value is not {uid}, the uid of this claim",
        "The annotation `reserve.dra/force-release` is not for this claim.",
        "Its value is the uid of another claim, perhaps of an earlier claim of this name.",
        "Remove the annotation if another claim was meant. " + _RELEASE,
        KeepsDevices.YES,
    )
    FORCE_RELEASE_BLOCKED = _warning(
        "ForceReleaseBlocked",
        "is not released by force: {pods} pods use the claim on Ready nodes ({names}); it stays reserved until the "
        "last pod ends. See: kubectl get pods -n {namespace} -o wide",
        "The forced release is refused: pods use the claim on Ready nodes.",
        "A forced release never overrides pods that certainly run.",
        "Wait for the listed pods. Deleting a pod ends its work, and its controller may create another. To cancel the "
        "release, remove the annotation; until then, it overrides these pods once their node does not report in.",
        KeepsDevices.YES,
    )
    FORCE_RELEASE_WAITS = _normal(
        "ForceReleaseWaits",
        "is released by force within {seconds} s, once no pod can be bound to the claim ({pods} known)",
        "The forced release waits until no pod can be bound to the claim.",
        "A pod was listed recently, and a scheduling cycle may still run; or a pod was deleted by force, and its "
        "containers may still run.",
        "Wait: a minute; 21 if pods are nominated or wait for volumes; about three after a forced deletion. If a "
        "scheduler keeps binding a pod in vain because another claim of the pod never becomes ready, delete that pod: "
        "the wait does not end otherwise.",
        KeepsDevices.YES,
    )
    HELD = _normal(
        "HeldForReservation",
        "is held for Reservation {reservation}: the devices stay allocated for its owners",
        "A Reservation keeps the devices of the claim for its owners, even while no pod exists.",
        "The claim was allocated for a Reservation's template, or the template names the claim.",
        "Nothing to do. Deleting the Reservation frees the devices, and no later owner gets them.",
        KeepsDevices.YES,
    )
    HOLD_ENDED = _normal(
        "ReservationEnded",
        "is no longer held: Reservation {reservation} ended; the claim is deallocated when its last pod ends",
        "The Reservation that held the claim has ended. The claim is deallocated when its last pod ends.",
        "The Reservation expired, was deleted, or was for a single owner, which now has the claim.",
        "Nothing to do.",
    )
    HOLD_LOST = _warning(
        "HoldLost",
        "is not allocated although Reservation {reservation} is Available: the Reservation holds no devices for new "
        "owners; running owners keep their devices. To hold devices again, delete the Reservation and create a new "
        "one. See: kubectl dra why reservation/{reservation}",
        "The claim that a Reservation holds is not allocated, so the Reservation holds no devices for its owners.",
        "The claim was released by force, or a scheduler revoked the allocation while the Reservation was being "
        "placed.",
        "Delete the Reservation and create a new one. In between, other pods may take the capacity that it held.",
    )
    HANDED_OVER = _normal(
        "HandedOver",
        "was handed over with its devices to pod {pod}, an owner of Reservation {reservation}",
        "The claim now belongs to that pod, with its devices.",
        "The pod is an owner of the Reservation and requests a claim of equal content.",
        "Nothing to do.",
        KeepsDevices.YES,
    )
    WAITS_FOR_HELD = _normal(
        "WaitsForHeldClaim",
        "waits for claim {claim}, which Reservation {reservation} holds for it, until {former} ends. "
        "See: kubectl describe resourceclaim -n {namespace} {claim}",
        "The pod gets a held claim as soon as the present user of the claim has ended.",
        "The previous owner is ending, or the placeholder of the Reservation still exists.",
        "Wait for the named pod to end. If its node is lost, see `NodeLost`.",
        KeepsDevices.YES,
    )
    CLAIM_IDLE = _warning(
        "ClaimIdle",
        "has held {devices} devices for {hours} h without use, for {keeper}: no other claim can get them. Nothing "
        "frees the claim; end what it is kept for or delete the claim if nobody needs the devices",
        "The claim has held devices for at least `idleClaimHours` of the configuration, and none of them was used.",
        "No pod uses the claim, or its GPUs compute nothing, as the NodeMetric of their node reports (`colocation: "
        "true`). The hours count from when this controller saw it first, so a restart begins anew.",
        "Ask the owner of the workload or Reservation. End it, or delete the claim, if nobody needs the devices; the "
        "controller frees nothing by itself. `kubectl dra usage --idle` shows all that is idle.",
    )
    NODE_MAY_BE_DELETED = _warning(
        "NodeMayBeDeleted",
        "stays reserved for {keeper} without a pod, and autoscalers count pods alone: {nodes} may be deleted as empty "
        "({signs}), and the next pod gets other devices or none. Annotation {annotations} keeps a node whose deletion "
        "has not begun, if its value is true; the owner of the node decides",
        "An autoscaler may delete all nodes of a claim that is kept for a workload, PodGroup or Reservation without a "
        "pod.",
        "Cluster autoscaler and Karpenter count pods, not claims: a node without pods is empty for them.",
        "Have the annotation that the Event names set on the nodes, by their owner or by the controller "
        "(`annotateNodes: true`), or end the workload if it no longer needs the devices. See "
        f"{page_url('how-to/autoscalers.md')}.",
        KeepsDevices.YES,
    )
