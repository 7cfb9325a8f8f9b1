"""Meaning, cause and remedy of each `Code`: the reasons of Events on claims and pods.

A remedy may name only commands that exist. ``NAME`` and ``NAMESPACE`` stand for the name and namespace of the object.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.reasons import Code
from dra.engine.messages.texts import Guidance, KeepsDevices

_RELEASE: Final = (
    "Whoever is certain that nobody uses the devices can release the claim (`kubectl dra release --help`); "
    "if a pod uses them after all, two pods share a device."
)

CODES: Final[Mapping[Code, Guidance]] = {
    Code.WORKLOAD_ENTERED: Guidance(
        "The claim has the entry of its workload: any number of its pods may use it.",
        "It was allocated while a pod of the workload waited or ran.",
        "Nothing.",
        KeepsDevices.YES,
    ),
    Code.LIST_WINDOWED: Guidance(
        "More pods use the claim than a list has entries; those that start are listed, a guard stands for the others.",
        "More than 240 pods use the claim at a time.",
        "Nothing.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_RELEASED: Guidance(
        "The entry of the workload is gone; the claim is free as soon as no pod uses it.",
        "The workload has finished, satisfies a release rule, or is gone.",
        "Nothing.",
    ),
    Code.OWNER_RELEASED: Guidance(
        "The workload's own controller has let go of the claim.",
        "It took its entry out of `status.reservedFor`, and it is not put back for this allocation.",
        "Nothing.",
    ),
    Code.RELEASE_WAITS: Guidance(
        "The workload is over, and pods that have not finished still name the claim.",
        "Pods outlive their workload: they shut down slowly, their node does not answer, or somebody else made them.",
        "Wait for the pods that it counts; `kubectl dra explain claim NAME -n NAMESPACE` names them with their owners. "
        "Deleting them ends their work.",
        KeepsDevices.YES,
    ),
    Code.DEALLOCATED: Guidance(
        "The devices are free.", "Nobody used the claim any more, and its reservation had ended.", "Nothing."
    ),
    Code.DEALLOCATION_WAITS: Guidance(
        "Nobody uses the claim, but a pod that was listed or let in lately may still be bound to its devices.",
        "A scheduler that began before may still be at work; it is given a minute, 21 where pods are nominated or wait "
        "for volumes.",
        "Wait.",
        KeepsDevices.YES,
    ),
    Code.LEADER_CHANGED: Guidance(
        "The claim is to be given back, and the new leader waits until no write of the old one can arrive.",
        "The controller was restarted, or another replica leads now.",
        "Wait ten seconds.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_PENDING: Guidance(
        "There is no such workload yet; the claim is reserved for it once it is there.",
        "The claim was made first, or the annotation names something else than what runs.",
        "Create the workload, or correct the annotation `reserve.dra/reserved-for`.",
    ),
    Code.WORKLOAD_GONE: Guidance(
        "The object with the uid that the claim names is gone; nothing is reserved.",
        "It was deleted, and perhaps made anew under its name: uids count, names do not.",
        "If another object is meant, correct `reserve.dra/reserved-for-uid`.",
    ),
    Code.WORKLOAD_UNREADABLE: Guidance(
        "Nobody can tell whether the workload is over; the claim stays reserved.",
        "The controller may not get, list and watch that kind.",
        "Grant it: `deploy/kustomize/base/workload-rights.yaml` shows how; "
        "`kubectl dra preflight` says what else is missing.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_UNKNOWN_KIND: Guidance(
        "The API server has no such kind; what is reserved stays so.",
        "A slip in the annotation, or the kind's CRD was never installed, or is gone.",
        "Correct the annotation, or install the CRD; `kubectl api-resources` lists what there is.",
        KeepsDevices.YES,
    ),
    Code.WORKLOAD_KINDS_EXCEEDED: Guidance(
        "The kind of the workload is not watched, so nobody can tell whether the workload is over; the claim stays "
        "reserved.",
        "Claims of the namespace name more kinds of workloads than the controller watches for one namespace "
        "(docs/reference/limits.md).",
        "Delete claims that name kinds nobody needs: the next kind is then watched within a minute. Kinds with a "
        "release rule (`releaseRules` of the configuration) are always watched.",
        KeepsDevices.YES,
    ),
    Code.RULE_FAILED: Guidance(
        "The release rule of the workload's kind gives no answer for this object, so the rule cannot tell whether the "
        "workload is over; the claim stays reserved.",
        "The object is nested deeper, or the rule takes more iterations for it, than expressions may "
        "(docs/reference/limits.md).",
        "Delete the workload when it is over, or have its controller release the claim; make the object smaller, or "
        "the rule cheaper (`releaseRules` of the configuration).",
        KeepsDevices.YES,
    ),
    Code.IN_DOUBT: Guidance(
        "Nobody can tell whether the workload has already let go of this allocation; it stays reserved.",
        "The allocation is older than the controller, and nothing on the claim says that its workload was entered.",
        "It ends with the workload. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.MALFORMED_REFERENCE: Guidance(
        "The annotation names no workload; the claim is used as if it had none.",
        "`reserve.dra/reserved-for` is not RESOURCE[.GROUP]/NAME, or the uid beside it is none.",
        "Correct the annotation, say `reserve.dra/reserved-for: jobs.batch/train`.",
    ),
    Code.ALLOCATION_STUCK: Guidance(
        "No pod can use the allocation, so it is taken back, and the scheduler chooses again.",
        "Its nodes or devices are gone, cordoned, tainted or full, and other devices would do for a pod that waits; or "
        "a device could not be bound.",
        "Nothing. The allocation stays if its nodes take pods again before; a cordon is lifted by whoever set it.",
    ),
    Code.ALLOCATION_UNUSABLE: Guidance(
        "No pod that waits can use the allocation, and giving it back would help none of them; it stays.",
        "Its nodes are full, cordoned or gone, and no other node has both such devices and room; or a pod fits no node "
        "by its own requests. The text says so if the controller could not find out.",
        "Make room on the allocation's nodes, or change the pods: `kubectl dra why pod NAME -n NAMESPACE` tells what "
        "is in the way on each node.",
        KeepsDevices.YES,
    ),
    Code.ALLOCATION_LOST: Guidance(
        "A running or starting pod uses devices that nobody holds for it any more; they may be given away.",
        "Somebody else cleared the claim's status under the pod.",
        "Delete the pod as soon as its work may be interrupted; only its controller, if it has one, makes another one. "
        "Find out who wrote: `kubectl get resourceclaim NAME --show-managed-fields -o yaml`.",
    ),
    Code.POD_OFF_ALLOCATION: Guidance(
        "The pod is bound to a node that has not got the claim's devices; it is not listed and will not start.",
        "Somebody has set its `nodeName`, or another scheduler bound it without looking at claims.",
        "Delete the pod. Its controller makes another one, which is scheduled; a pod without a controller must be "
        "created anew, without `nodeName`. A Job counts the deletion as a failure (`backoffLimit`).",
    ),
    Code.SANDBOX_NOT_READY: Guidance(
        "The pod is bound and cannot start; others take its turn in the list meanwhile.",
        "Its node cannot make the sandbox: network plugin, image of the sandbox, runtime, or a driver's refusal.",
        "Look at its Events and at the node: `kubectl describe pod NAME -n NAMESPACE`.",
    ),
    Code.CONSUMER_LIMIT: Guidance(
        "The list is full, and pods wait for a place in it.",
        "Mode `alongside`: the stock claim controller lists each pod, and finished pods keep their entries.",
        "Delete pods of the claim that have finished and whose logs nobody needs any more, or use mode `replace`.",
        KeepsDevices.YES,
    ),
    Code.WAITS_FOR_SLOT: Guidance(
        "The pod waits until its claim's list has room.",
        "A list has 256 entries at most; see `ConsumerLimit` on the claim.",
        "Delete pods of the claim that have finished and whose logs nobody needs, or use mode `replace`.",
    ),
    Code.LIST_TAKEN: Guidance(
        "Pods wait for a place in the claim's list, and entries of others take all of them.",
        "Somebody's controller lists its own objects in `status.reservedFor`, nearly 256 of them; such entries are "
        "never touched.",
        "Ask whoever makes these entries to remove those that are not needed any more, or use several claims.",
        KeepsDevices.YES,
    ),
    Code.STOCK_CONTROLLER_ACTIVE: Guidance(
        "Two controllers write the same lists; ours acts on that claim as in mode `alongside`.",
        "Mode `replace`, but a kube-controller-manager runs its resourceclaim-controller all the same.",
        "Append `,-resourceclaim-controller` to `--controllers` of every kube-controller-manager, or use mode "
        "`alongside`; then restart our controller's pods.",
    ),
    Code.DEVICE_HELD_TWICE: Guidance(
        "Two claims have one device: their pods share what each takes for its own.",
        "Somebody wrote an allocation by hand or restored one, or a scheduler acted on old data.",
        "Decide which claim keeps the device. End the pods of the other claim, whose work is lost by that, then delete "
        "that claim.",
        KeepsDevices.YES,
    ),
    Code.DELETION_WAITS: Guidance(
        "Somebody has deleted the claim; it goes when the last pod that uses it has ended.",
        "Pods that use it still run, or may be bound any moment.",
        "Wait for the pods that it counts. Deleting them ends their work.",
        KeepsDevices.YES,
    ),
    Code.EVICTED: Guidance(
        "The pod is deleted because its device is broken, or is to be freed.",
        "The device has a NoExecute taint, by its driver or by a DeviceTaintRule, that the claim does not tolerate.",
        "Nothing: its owner makes another one. To let pods stay, add a toleration to the claim's request.",
    ),
    Code.GENERATION_FAILED: Guidance(
        "A claim that a pod or PodGroup asks for could not be made from its template.",
        "The template is missing, or the API server refuses the claim (quota, admission, an invalid spec).",
        "Do what the text says; `kubectl get resourceclaimtemplates -n NAMESPACE` lists the templates.",
    ),
    Code.WAITS_FOR_GROUP: Guidance(
        "The pod gets no claims from templates until its PodGroup can be read.",
        "`/apis/scheduling.k8s.io` answers with an error, or the controller may not list PodGroups. A PodGroup may ask "
        "for the same claims, and then they are made once for all its pods. Pods without a PodGroup are served.",
        "Look at the error in the Event; `kubectl dra preflight` says which right is missing.",
    ),
    Code.KEPT_BY_OTHERS: Guidance(
        "Only entries of other controllers keep the claim; nobody here knows what they stand for.",
        "Another controller reserves the claim, or did and is no more.",
        "Ask whoever runs that controller. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.NODE_LOST: Guidance(
        "Pods vanished from a node that does not report in, and may still run there.",
        "The node is cut off or off, and somebody deleted its pods by force.",
        "Bring the node back. If its machine is certainly off, whoever runs the cluster can taint it "
        "`node.kubernetes.io/out-of-service` or delete the Node: all its pods end, and if the machine runs after all, "
        "two pods use one device.",
        KeepsDevices.YES,
    ),
    Code.PODS_VANISHED: Guidance(
        "Pods were deleted before their kubelets told that the containers had ended.",
        "Somebody deleted them by force, or they went while no controller ran.",
        "Wait: a kubelet needs the grace period, and its node counts as Ready for up to 50 s after its last word.",
        KeepsDevices.YES,
    ),
    Code.GUARD_FOUND: Guidance(
        "The controller was started, and found a guard in the list: pods without entries of their own used the claim.",
        "Some of these pods may have been deleted by force while no controller ran, and may still run containers.",
        "Wait: for 100 s from the start, for longer if the claim's node does not report in, for 190 s where the "
        "allocation reaches several nodes.",
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASED: Guidance(
        "The claim was freed because somebody asked for it; the text says what was overridden.",
        "The annotation `reserve.dra/force-release` carried the claim's uid.",
        "Nothing.",
    ),
    Code.FORCE_RELEASE_IGNORED: Guidance(
        "The annotation to release by force is not for this claim.",
        "Its value is another claim's uid, perhaps that of a former one of this name.",
        "Take the annotation off if another claim was meant. " + _RELEASE,
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASE_BLOCKED: Guidance(
        "Releasing by force is refused: pods use the claim, on nodes that are Ready.",
        "What runs for certain is never overridden.",
        "Wait for the pods that it names. Deleting them ends their work; their controllers may make others. To give up "
        "the release, take the annotation off: it stands, and overrides these pods once their node does not report in.",
        KeepsDevices.YES,
    ),
    Code.FORCE_RELEASE_WAITS: Guidance(
        "Releasing by force waits until no pod can be bound to the claim any more.",
        "A pod was listed lately, and a scheduler may be at work; or a pod was deleted by force, and its containers "
        "may still run.",
        "Wait: for a minute, for 21 where pods are nominated or wait for volumes, for some three after a pod was "
        "deleted by force. A scheduler that binds a pod in vain again and again, because another claim of the pod "
        "never gets ready, ends the wait only when somebody deletes that pod.",
        KeepsDevices.YES,
    ),
    Code.HELD: Guidance(
        "A Reservation keeps the devices of the claim for its owners, also while there is no pod.",
        "The claim was allocated for a Reservation's template, or its template names it.",
        "Nothing. Deleting the Reservation gives the devices up, for all its owners to come.",
        KeepsDevices.YES,
    ),
    Code.HOLD_ENDED: Guidance(
        "The Reservation that kept the claim is over; the claim is free when its last pod ends.",
        "The Reservation has expired, was deleted, or was for one owner, who has the claim.",
        "Nothing.",
    ),
    Code.HOLD_LOST: Guidance(
        "The claim that a Reservation holds is not allocated, so no devices are held for its owners.",
        "It was released by force, or a scheduler took the allocation back while the Reservation was being placed.",
        "Delete the Reservation and create it anew; amounts that it holds may be taken by others in between.",
    ),
    Code.HANDED_OVER: Guidance(
        "The claim is that pod's now, with the devices that it has.",
        "The pod is an owner of the Reservation, and asks for a claim of this content.",
        "Nothing.",
        KeepsDevices.YES,
    ),
    Code.WAITS_FOR_HELD: Guidance(
        "The pod gets a held claim as soon as whoever has it still has ended.",
        "Its predecessor is ending just now, or the placeholder of the Reservation is still there.",
        "Wait for the pod that it names to end. If its node is lost, see `NodeLost`.",
        KeepsDevices.YES,
    ),
}
