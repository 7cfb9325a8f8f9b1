"""Meaning, cause and remedy of each `Code`: the reasons of Events on claims and pods.

A remedy may name only commands that exist. ``NAME`` and ``NAMESPACE`` stand for the name and namespace of the object.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.reasons import Code
from dra.engine.messages.documentation import page_url
from dra.engine.messages.texts import Guidance, KeepsDevices

_RELEASE: Final = (
    "If you are certain that no process uses the devices, you can release the claim (`kubectl dra release --help`). "
    "If a pod still uses the devices, two pods then share them."
)

CODES: Final[Mapping[Code, Guidance]] = {
    Code.WORKLOAD_ENTERED: Guidance(
        "The claim's list has the entry of its workload: any number of the workload's pods may use the claim.",
        "The claim was allocated while a pod of the workload waited or ran.",
        "Nothing to do.",
        KeepsDevices.YES,
    ),
    Code.LIST_WINDOWED: Guidance(
        "Not all pods that use the claim are in its list: starting pods are, and a guard entry stands for the others.",
        "More than 240 pods use the claim at a time.",
        "Nothing to do.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_RELEASED: Guidance(
        "The controller removed the entry of the workload. The claim is deallocated as soon as no pod uses it.",
        "The workload finished, satisfies a release rule, or was deleted.",
        "Nothing to do.",
    ),
    Code.OWNER_RELEASED: Guidance(
        "The workload's own controller released the claim.",
        "That controller removed its entry from `status.reservedFor`; the entry is not restored for this allocation.",
        "Nothing to do.",
    ),
    Code.RELEASE_WAITS: Guidance(
        "The workload ended, but unfinished pods still reference the claim.",
        "Pods can outlive their workload: they shut down slowly, their node does not respond, or another client "
        "created them.",
        "Wait for the counted pods; `kubectl dra explain claim NAME -n NAMESPACE` lists them with their owners. "
        "Deleting a pod ends its work.",
        KeepsDevices.YES,
    ),
    Code.DEALLOCATED: Guidance(
        "The devices of the claim are free.", "No pod used the claim, and its reservation had ended.", "Nothing to do."
    ),
    Code.DEALLOCATION_WAITS: Guidance(
        "No pod uses the claim, but a scheduler may still bind a pod that was recently listed or admitted.",
        "A scheduling cycle that began earlier may still run. The wait is one minute, or 21 minutes if pods are "
        "nominated or wait for volumes.",
        "Wait.",
        KeepsDevices.YES,
    ),
    Code.LEADER_CHANGED: Guidance(
        "The claim is about to be deallocated. The new leader waits until no write of the previous leader can arrive.",
        "The controller was restarted, or another replica became the leader.",
        "Wait ten seconds.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_PENDING: Guidance(
        "The workload does not exist yet. The claim is reserved once the workload is created.",
        "The claim was created first, or the annotation names another object than the running workload.",
        "Create the workload, or correct the annotation `reserve.dra/reserved-for`.",
    ),
    Code.WORKLOAD_GONE: Guidance(
        "The object with the uid that the claim names was deleted. The claim is not reserved.",
        "The workload was deleted, and perhaps created again with the same name: the uid counts, not the name.",
        "To reserve the claim for another object, correct `reserve.dra/reserved-for-uid`.",
    ),
    Code.WORKLOAD_UNREADABLE: Guidance(
        "The controller cannot check whether the workload has ended. The claim stays reserved.",
        "The controller has no permission to get, list and watch that kind.",
        "Grant the permission as ClusterRole `dra-reserve-workload-reader` does for other kinds; "
        "`kubectl dra preflight` reports other missing permissions.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_UNKNOWN_KIND: Guidance(
        "The API server does not serve the kind of the workload. A reserved claim stays reserved.",
        "The annotation has a typing error, or the CRD of the kind is not installed.",
        "Correct the annotation, or install the CRD; `kubectl api-resources` lists the kinds that are served.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_KINDS_EXCEEDED: Guidance(
        "The controller does not watch the kind of the workload, so it cannot check whether the workload has ended. "
        "The claim stays reserved.",
        "Claims of the namespace refer to more kinds of workloads than the controller watches for one namespace "
        f"({page_url('reference/limits.md')}).",
        "Delete claims for kinds that are no longer used: the next kind is then watched within a minute. Kinds with a "
        "release rule (`releaseRules` of the configuration) are always watched.",
        KeepsDevices.YES,
    ),
    Code.RULE_FAILED: Guidance(
        "The release rule of the workload's kind failed for this object, so the controller cannot check whether the "
        "workload has ended. The claim stays reserved.",
        "The object is nested too deeply, or the rule takes too many iterations for it "
        f"({page_url('reference/limits.md')}).",
        "Delete the workload when it has ended, or let its controller release the claim. Make the object smaller, or "
        "the rule cheaper (`releaseRules` of the configuration).",
        KeepsDevices.YES,
    ),
    Code.KEPT_WHILE_SUSPENDED: Guidance(
        "The workload of the claim is suspended, and the claim keeps its devices until the workload is resumed.",
        "Kueue evicted the workload, or a user suspended it. The annotation `reserve.dra/when-suspended` of the claim "
        "and `releaseSuspended` of the configuration decide whether a suspended workload keeps its devices.",
        "If the resumed workload may get other devices, set the annotation `reserve.dra/when-suspended` of the claim "
        "to `release`. If the workload needs the same devices, set the annotation to `keep`, which ends this warning.",
        KeepsDevices.YES,
    ),
    Code.IN_DOUBT: Guidance(
        "The controller does not know whether the workload has already released this allocation. It stays reserved.",
        "The allocation is older than the controller process, and the claim does not record the workload's entry.",
        "The reservation ends with the workload. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.MALFORMED_REFERENCE: Guidance(
        "The annotation names no workload. Pods use the claim as if it had no annotation.",
        "`reserve.dra/reserved-for` does not have the form RESOURCE[.GROUP]/NAME, or the uid beside it is malformed.",
        "Correct the annotation, for example `reserve.dra/reserved-for: jobs.batch/train`.",
    ),
    Code.RESERVATION_IGNORED: Guidance(
        "The claim belongs to a single pod, so it is released with that pod. It is not reserved for the workload.",
        "A ResourceClaimTemplate has the annotation `reserve.dra/reserved-for` or the field `spec.reservedFor`, and "
        "each pod gets a claim of its own from it. Kept for the workload, the devices of ended pods would be lost to "
        "the next pods: no other pod can use these claims.",
        "To let all pods share devices, create one ResourceClaim with the annotation and name it in the pod template "
        f"(`resourceClaimName`, {page_url('how-to/reserve-a-claim.md')}). Otherwise remove the annotation from the "
        "ResourceClaimTemplate.",
    ),
    Code.UNKNOWN_ANNOTATION: Guidance(
        "An annotation of `reserve.dra` has a key that nothing reads.",
        "The key is misspelled, or belongs to another version of dra-reserve.",
        "Correct the key; the page Annotations of the reference lists the keys for users.",
    ),
    Code.ALLOCATION_STUCK: Guidance(
        "No pod can use the allocation. The controller deallocates the claim, and the scheduler allocates it again.",
        "The nodes or devices are gone, cordoned, tainted or full, and a waiting pod could use other devices; or a "
        "device could not be bound.",
        "Nothing to do. The allocation stays if its nodes accept pods again in time. Do not lift a cordon that you did "
        "not set.",
    ),
    Code.ALLOCATION_UNUSABLE: Guidance(
        "No waiting pod can use the allocation, and deallocating the claim would help none of them. The allocation "
        "stays.",
        "The nodes are full, cordoned or gone, and no other node has both such devices and room; or a pod fits no node "
        "because of its own requests. The Event reports if the controller could not find out.",
        "Make room on the allocation's nodes, or change the pods. `kubectl dra why pod NAME -n NAMESPACE` lists the "
        "obstacles on each node.",
        KeepsDevices.YES,
    ),
    Code.ALLOCATION_LOST: Guidance(
        "A bound pod uses devices that are no longer allocated to its claim. Other claims may get these devices.",
        "Another client cleared the claim's status while the pod used the claim.",
        "Delete the pod when its work can be interrupted; only a controller replaces a deleted pod. Find the client: "
        "`kubectl get resourceclaim NAME --show-managed-fields -o yaml`.",
    ),
    Code.BOUND_WITHOUT_ALLOCATION: Guidance(
        "The pod is bound, but its claim has no allocation and shows no sign of an earlier one. The pod cannot start.",
        "A client set the pod's `nodeName`, or another scheduler bound the pod without allocating its claims. Rarely: "
        "the pod was bound late, after its claim was deallocated.",
        "Delete the pod. A controller creates a new pod, which is then scheduled; create a pod without a controller "
        "again yourself, without `nodeName`. If the new pod ends the same way, its scheduler does not know claims.",
    ),
    Code.POD_OFF_ALLOCATION: Guidance(
        "The pod is bound to a node without the claim's devices. The pod is not listed and cannot start.",
        "A client set the pod's `nodeName`, or another scheduler bound the pod without considering claims.",
        "Delete the pod. A controller creates a new pod, which is then scheduled; create a pod without a controller "
        "again yourself, without `nodeName`. A Job counts the deletion as a failure (`backoffLimit`).",
    ),
    Code.SANDBOX_NOT_READY: Guidance(
        "The pod is bound but cannot start. Other pods get its place in the list meanwhile.",
        "The kubelet cannot create the sandbox: network plugin, sandbox image, container runtime, or a driver's error.",
        "Look at the Events of the pod and at its node: `kubectl describe pod NAME -n NAMESPACE`.",
    ),
    Code.CONSUMER_LIMIT: Guidance(
        "The list is full, and pods wait for an entry.",
        "In mode `alongside`, the stock claim controller lists each pod, and finished pods keep their entries.",
        "Delete finished pods of the claim whose logs are no longer needed, or use mode `replace`.",
        KeepsDevices.YES,
    ),
    Code.WAITS_FOR_SLOT: Guidance(
        "The pod waits until the list of its claim has room.",
        "A list has at most 256 entries; see `ConsumerLimit` on the claim.",
        "Delete finished pods of the claim whose logs are no longer needed, or use mode `replace`.",
    ),
    Code.LIST_TAKEN: Guidance(
        "Pods wait for an entry in the claim's list, and entries of other clients fill the list.",
        "Another controller lists its own objects in `status.reservedFor`, nearly 256 of them. dra-reserve never "
        "changes such entries.",
        "Ask the owner of that controller to remove unneeded entries, or use several claims.",
        KeepsDevices.YES,
    ),
    Code.STOCK_CONTROLLER_ACTIVE: Guidance(
        "Two controllers write the same list. dra-reserve treats this claim as in mode `alongside`.",
        "The mode is `replace`, but a kube-controller-manager still runs its resourceclaim-controller.",
        "Append `,-resourceclaim-controller` to `--controllers` of every kube-controller-manager, or use mode "
        "`alongside`. Then restart the pods of dra-reserve's controller.",
    ),
    Code.DEVICE_HELD_TWICE: Guidance(
        "Two claims have the same device, so their pods share a device that each expects to have alone.",
        "A client wrote or restored an allocation by hand, or a scheduler acted on old data.",
        "Decide which claim keeps the device. End the pods of the other claim, which ends their work, then delete that "
        "claim.",
        KeepsDevices.YES,
    ),
    Code.DELETION_WAITS: Guidance(
        "The claim is being deleted. The deletion completes when the last pod that uses the claim has ended.",
        "Pods still use the claim, or may be bound at any moment.",
        "Wait for the counted pods. Deleting a pod ends its work.",
        KeepsDevices.YES,
    ),
    Code.EVICTED: Guidance(
        "The controller deleted the pod because its device is broken or must be freed.",
        "The device has a NoExecute taint, set by its driver or a DeviceTaintRule, that the claim does not tolerate.",
        "Nothing to do: the pod's controller creates a new pod. To let pods stay, add a toleration to the claim's "
        "request.",
    ),
    Code.GENERATION_FAILED: Guidance(
        "The controller could not create a claim that a pod or PodGroup requests by a template.",
        "The template is missing, or the API server rejects the claim (quota, admission, an invalid spec).",
        "Follow the error in the Event; `kubectl get resourceclaimtemplates -n NAMESPACE` lists the templates.",
    ),
    Code.WAITS_FOR_GROUP: Guidance(
        "The pod gets no claims from templates until its PodGroup can be read.",
        "`/apis/scheduling.k8s.io` returns an error, or the controller may not list PodGroups. A PodGroup may request "
        "the same claims, which then serve all its pods. Pods without a PodGroup are not affected.",
        "Look at the error in the Event; `kubectl dra preflight` reports the missing permission.",
    ),
    Code.TEMPLATE_FAILED: Guidance(
        "The controller could not create a ResourceClaimTemplate for a pod that requests CPUs or GPUs in Koordinator's "
        "form; it tries again.",
        "The API server rejects the template (a ResourceQuota, admission).",
        "Follow the error in the Event; the pod waits until the template exists.",
    ),
    Code.FOREIGN_TEMPLATE: Guidance(
        "The template that a translated pod names was made by someone else, and may request anything.",
        "A user or a backup created a ResourceClaimTemplate under a name that dra-reserve uses, without its label.",
        "Delete the template: the controller creates it within a second while a pod names it.",
    ),
    Code.WAITS_FOR_CARDS: Guidance(
        "The pod requests a share of a card by percent of memory, and the cluster has no card for shares yet.",
        "No kubelet plugin runs with `--gpu-shares` on a node with GPUs, or its ResourceSlices are not published yet.",
        "Install the kubelet plugin with shares; the template follows without further steps.",
    ),
    Code.CARD_SIZES_EXCEEDED: Guidance(
        "The claim of the pod leaves out cards of some sizes.",
        "A percentage of memory is another number of bytes for each size of card, and a request has at most eight "
        "alternatives. The eight sizes with most cards are taken.",
        "Request bytes (`koordinator.sh/gpu-memory`) where a pod must be able to use any card.",
    ),
    Code.CLAIM_LACKS_CARD_SIZES: Guidance(
        "The pod waits for a card of the sizes that the cluster had when its claim was made.",
        "Cards of another size were added later, and in mode alongside kube-controller-manager makes the claims.",
        "Delete the pod if it should also use the new cards: the claim of its successor considers them.",
    ),
    Code.CLAIM_RENEWED: Guidance(
        "The controller deleted the unallocated claim of a waiting pod; the pod gets a claim that considers all cards.",
        "Cards of a size that the cluster did not have were added while the pod waited (mode replace).",
        "Nothing to do.",
    ),
    Code.PREPARE_REFUSED: Guidance(
        "The pod is bound to a node whose driver refuses its claim, and the controller does not evict the pod.",
        "The claim was allocated before the driver had published what is left, or the CPUs of the node have changed; "
        "the condition `Ready` of the claim's device says which. The Event says why the pod is not evicted: it has no "
        "controller, or the claim is not its own.",
        "Delete the pod, and create it again unless a controller does: the scheduler finds another node, or the pod "
        "waits. Until then the claim keeps CPUs of the node that no pod can use.",
        KeepsDevices.YES,
    ),
    Code.EVICTED_UNPREPARED: Guidance(
        "The controller evicted a pod that could not start on its node; its claim is deleted with the pod.",
        "The node's driver has refused to prepare the claim for 30 s, for example because two pods that require whole "
        "cores were scheduled at the same moment.",
        "Nothing to do: the pod's controller creates a new pod. A Job counts the eviction as a failure unless its "
        "podFailurePolicy ignores DisruptionTarget.",
    ),
    Code.NO_BOUND_CPUS: Guidance(
        "The pod has QoS class LSE or LSR and is not bound to CPUs.",
        "Its annotation `resource-spec` has the bind policy ConstrainedBurst, which means just that.",
        "Nothing, or name another bind policy in the pod template.",
    ),
    Code.UNKNOWN_QOS_CLASS: Guidance(
        "The pod is treated as one without QoS class.",
        "Its label `koordinator.sh/qosClass` has a value that is none of Koordinator's, such as `lsr` for `LSR`.",
        "Correct the label in the pod template.",
    ),
    Code.KEPT_BY_OTHERS: Guidance(
        "Only entries of other controllers keep the claim allocated. dra-reserve does not know their meaning.",
        "Another controller reserves the claim, or did so before it was removed.",
        "Ask the owner of that controller. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.NODE_LOST: Guidance(
        "Pods vanished from a node that does not report in, and may still run there.",
        "The node is disconnected or off, and its pods were deleted by force.",
        "Bring the node back. If its machine is certainly off, an administrator can set the taint "
        "`node.kubernetes.io/out-of-service` or delete the Node: all its pods end. If the machine still runs, two pods "
        "then use one device.",
        KeepsDevices.YES,
    ),
    Code.PODS_VANISHED: Guidance(
        "Pods were deleted before their kubelets reported the end of their containers.",
        "The pods were deleted by force, or while no controller ran.",
        "Wait: a kubelet needs the grace period, and a node counts as Ready for up to 50 s after its last report.",
        KeepsDevices.YES,
    ),
    Code.GUARD_FOUND: Guidance(
        "The controller started and found a guard entry in the list: pods without entries of their own used the claim.",
        "Some of these pods may have been deleted by force while no controller ran, and may still run containers.",
        "Wait for 100 s after the start; longer if the claim's node does not report in, and 190 s if the allocation "
        "reaches several nodes.",
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASED: Guidance(
        "The claim was deallocated on a user's request. The Event lists what was overridden.",
        "The annotation `reserve.dra/force-release` had the claim's uid.",
        "Nothing to do.",
    ),
    Code.FORCE_RELEASE_IGNORED: Guidance(
        "The annotation `reserve.dra/force-release` is not for this claim.",
        "Its value is the uid of another claim, perhaps of an earlier claim of this name.",
        "Remove the annotation if another claim was meant. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASE_BLOCKED: Guidance(
        "The forced release is refused: pods use the claim on Ready nodes.",
        "A forced release never overrides pods that certainly run.",
        "Wait for the listed pods. Deleting a pod ends its work, and its controller may create another. To cancel the "
        "release, remove the annotation; until then, it overrides these pods once their node does not report in.",
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASE_WAITS: Guidance(
        "The forced release waits until no pod can be bound to the claim.",
        "A pod was listed recently, and a scheduling cycle may still run; or a pod was deleted by force, and its "
        "containers may still run.",
        "Wait: a minute; 21 if pods are nominated or wait for volumes; about three after a forced deletion. If a "
        "scheduler keeps binding a pod in vain because another claim of the pod never becomes ready, delete that pod: "
        "the wait does not end otherwise.",
        KeepsDevices.YES,
    ),
    Code.HELD: Guidance(
        "A Reservation keeps the devices of the claim for its owners, even while no pod exists.",
        "The claim was allocated for a Reservation's template, or the template names the claim.",
        "Nothing to do. Deleting the Reservation frees the devices, and no later owner gets them.",
        KeepsDevices.YES,
    ),
    Code.HOLD_ENDED: Guidance(
        "The Reservation that held the claim has ended. The claim is deallocated when its last pod ends.",
        "The Reservation expired, was deleted, or was for a single owner, which now has the claim.",
        "Nothing to do.",
    ),
    Code.HOLD_LOST: Guidance(
        "The claim that a Reservation holds is not allocated, so the Reservation holds no devices for its owners.",
        "The claim was released by force, or a scheduler revoked the allocation while the Reservation was being "
        "placed.",
        "Delete the Reservation and create a new one. In between, other pods may take the capacity that it held.",
    ),
    Code.HANDED_OVER: Guidance(
        "The claim now belongs to that pod, with its devices.",
        "The pod is an owner of the Reservation and requests a claim of equal content.",
        "Nothing to do.",
        KeepsDevices.YES,
    ),
    Code.WAITS_FOR_HELD: Guidance(
        "The pod gets a held claim as soon as the present user of the claim has ended.",
        "The previous owner is ending, or the placeholder of the Reservation still exists.",
        "Wait for the named pod to end. If its node is lost, see `NodeLost`.",
        KeepsDevices.YES,
    ),
    Code.CLAIM_IDLE: Guidance(
        "The claim has held devices for at least `idleClaimHours` of the configuration, and none of them was used.",
        "No pod uses the claim, or its GPUs compute nothing, as the NodeMetric of their node reports (`colocation: "
        "true`). The hours count from when this controller saw it first, so a restart begins anew.",
        "Ask the owner of the workload or Reservation. End it, or delete the claim, if nobody needs the devices; the "
        "controller frees nothing by itself. `kubectl dra usage --idle` shows all that is idle.",
    ),
    Code.NODE_MAY_BE_DELETED: Guidance(
        "An autoscaler may delete all nodes of a claim that is kept for a workload, PodGroup or Reservation without a "
        "pod.",
        "Cluster autoscaler and Karpenter count pods, not claims: a node without pods is empty for them.",
        "Have the annotation that the Event names set on the nodes, by their owner or by the controller "
        "(`annotateNodes: true`), or end the workload if it no longer needs the devices. See "
        f"{page_url('how-to/autoscalers.md')}.",
        KeepsDevices.YES,
    ),
}
