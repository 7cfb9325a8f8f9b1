"""Meaning, cause and remedy of each `ProblemCode` that ``kubectl dra explain`` and ``audit`` report.

A code that is also the reason of an Event has the same meaning in both.
"""

from collections.abc import Mapping
from typing import Final

from dra.engine.claims.meanings import CODES
from dra.engine.claims.reasons import Code
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.messages.texts import Guidance, KeepsDevices

_EXPLAIN_COMMAND: Final = "the command that `kubectl dra explain claim NAME -n NAMESPACE` shows"

_DIAGNOSIS_GUIDANCE: Final[Mapping[ProblemCode, Guidance]] = {
    ProblemCode.UNGUARDED: Guidance(
        "Pods use the claim without an entry, and nothing in the list stands for them.",
        "A controller was stopped in the middle, or somebody edited the list by hand.",
        "Start the controller: it lists them at once. `kubectl get pods -n dra-reserve` shows whether it runs.",
        KeepsDevices.YES,
    ),
    ProblemCode.NOT_FREED: Guidance(
        "Nothing keeps the devices any more, and nobody gives them back.",
        "No controller is at work: it is stopped, does not lead, or may not write.",
        "Start the controller, or give the claim back with " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
    ),
    ProblemCode.LEFT_OVER: Guidance(
        "The claim has devices, nobody in its list and no pods.",
        "A scheduler allocated it for a pod that could not be bound then. The next pod that names it uses the devices.",
        "Nothing has to be done; to free the devices before, run " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
    ),
    ProblemCode.ZOMBIE_CLAIM: Guidance(
        "A claim that was made for a pod is there, its pod is not.",
        "Whoever makes claims from templates was off when the pod ended, or its finalizer was kept.",
        "Delete the claim with " + _EXPLAIN_COMMAND + ".",
        KeepsDevices.YES,
    ),
    ProblemCode.FINALIZER_LEFT: Guidance(
        "Only a finalizer keeps a deleted claim that has no devices.",
        "No claim controller is at work that would take it off.",
        "Start a claim controller, or run " + _EXPLAIN_COMMAND + ".",
    ),
    ProblemCode.FINALIZER_FOREIGN: Guidance(
        "The claim is deleted as soon as a finalizer goes that is not Kubernetes' own.",
        "Another controller has work to do for the claim before it goes, and does not, or is no more.",
        "Ask whoever runs that controller: what a finalizer stands for is left undone if it is taken off by hand.",
    ),
    ProblemCode.UNKNOWN_ANNOTATION: Guidance(
        "An annotation of `reserve.dra` has a key that nothing reads.",
        "A slip in the key, or another version of this project knows it.",
        "Correct the key: the README lists those that people write.",
    ),
    ProblemCode.NO_CONTROLLER: Guidance(
        "No controller of ours is known to run, and there is work for one.",
        "It was never installed, is scaled to zero, stands down or has no leader.",
        "Start the controller; `kubectl get pods -n dra-reserve` shows whether one is there, `kubectl dra preflight` "
        "what keeps one from working.",
    ),
    ProblemCode.NOT_ENTERED: Guidance(
        "Pods use a claim that is to be reserved for their workload, and the list has no entry of the workload.",
        "No controller of ours is known to run: nothing reserves the claim beyond the pods that are listed.",
        "Start the controller: it enters the workload within a second.",
    ),
    ProblemCode.STALE_ENTRIES: Guidance(
        "Pods that have ended are still in the list, and take room.",
        "No controller is at work, or one that has not come to it yet.",
        "Start the controller; a second look (`kubectl dra audit --settle 5`) tells whether it lasts.",
        KeepsDevices.YES,
    ),
    ProblemCode.TOMBSTONES: Guidance(
        "Entries stand for finished pods whose objects are gone.",
        "Left by mode `alongside`, where the stock controller would list such pods again.",
        "Nothing: a controller takes them off.",
        KeepsDevices.YES,
    ),
    ProblemCode.MARKS_LEFT: Guidance(
        "The claim has notes of ours about an allocation that is no more.",
        "Somebody else deallocated it while our controller was off.",
        "Start the controller, or take the notes off with " + _EXPLAIN_COMMAND + ".",
    ),
    ProblemCode.IDLE: Guidance(
        "The claim is reserved for a workload that has no pods now.",
        "It is scaled to zero, suspended, or between two runs: that is what a reservation is for.",
        "Nothing. The claim is given back when the workload is over, or when its controller takes its entry off.",
        KeepsDevices.YES,
    ),
    ProblemCode.NODE_CORDONED: Guidance(
        "The devices are on nodes that take no new pods, and pods wait for them.",
        "Somebody has cordoned the node, say to drain it.",
        "Wait: an allocation that nobody can use is taken back. Whoever cordoned the node decides when it takes pods "
        "again.",
        KeepsDevices.YES,
    ),
    ProblemCode.DEVICE_GONE: Guidance(
        "The claim has a device that no driver offers any more.",
        "Its node is gone, the driver is not running, or the device was taken out.",
        "Look at the driver on that node: `kubectl get resourceslices`. If the device is gone for good, end the pods.",
        KeepsDevices.YES,
    ),
    ProblemCode.DEVICE_TAINTED: Guidance(
        "The device has a taint that ends pods.",
        "Its driver or a DeviceTaintRule says that it is broken, or is to be freed.",
        "Nothing: the pods are evicted. To take the taint away: `kubectl get devicetaintrules`.",
        KeepsDevices.YES,
    ),
    ProblemCode.TIMELESS: Guidance(
        "The allocation does not say when it was made.",
        "Kubernetes writes that from 1.36 on.",
        "Nothing; a controller that starts anew may be in doubt, and then keeps the claim reserved.",
        KeepsDevices.YES,
    ),
    ProblemCode.NODE_NOT_READY: Guidance(
        "The pod is bound to a node that does not report in.",
        "The node is off or cut off.",
        "Bring the node back. Deleting the pod lets its controller make another one elsewhere; this one stays until "
        "its node answers, and may run there until then.",
    ),
    ProblemCode.TERMINATING: Guidance(
        "The pod is being deleted, and its node, which would have to end it, does not report in.",
        "The node is off or cut off; the pod's containers may still run there.",
        "Bring the node back: the pod ends then. If its machine is certainly off, whoever runs the cluster can taint "
        "it `node.kubernetes.io/out-of-service`, which ends all its pods; deleting the pod again changes nothing.",
        KeepsDevices.YES,
    ),
    ProblemCode.UNLISTED: Guidance(
        "The pod is bound, and its claim's list has not got it: its kubelet refuses it.",
        "No controller is at work, or the list has no room.",
        "Start the controller: it lists the pod at once. Without a controller of ours, delete the pod, so that the "
        "scheduler lists the next one.",
    ),
    ProblemCode.GATED: Guidance(
        "The pod stands behind our gate, and nobody is known to open it.",
        "No controller is at work, or its lease cannot be read.",
        "Start the controller, or open the gate with the command that `kubectl dra explain pod NAME` shows.",
    ),
    ProblemCode.GATED_BY_OTHERS: Guidance(
        "The pod stands behind scheduling gates of others.",
        "A queue (Kueue and the like) has not admitted it yet.",
        "Ask whoever set the gate: `kubectl describe pod NAME -n NAMESPACE`.",
    ),
    ProblemCode.CLAIM_MISSING: Guidance(
        "The pod names a claim that does not exist.",
        "It was never made, or deleted, or the name has a slip.",
        "Create the claim; a pod that names the wrong one must be made anew.",
    ),
    ProblemCode.CLAIM_NOT_MADE: Guidance(
        "The pod waits for a claim to be made from a template.",
        "No claim controller is at work: neither kube-controller-manager's nor ours in mode `replace`.",
        "Switch one of the two on: `kubectl dra preflight` says what it sees.",
    ),
    ProblemCode.TEMPLATE_MISSING: Guidance(
        "The template that the pod names does not exist.",
        "It was never made, or deleted, or the name has a slip.",
        "Create it: `kubectl get resourceclaimtemplates -n NAMESPACE` lists those that there are.",
    ),
    ProblemCode.CLAIM_DELETING: Guidance(
        "The claim that the pod names is being deleted; no new pod can use it.",
        "Somebody deleted it while pods still name it.",
        "Wait until it is gone and create it anew, or let the pods name another one.",
    ),
    ProblemCode.UNSATISFIABLE: Guidance(
        "No node could ever satisfy the claim as it is.",
        "It asks for a class that does not exist, a selector does not compile, or it wants more than there is.",
        "Do what the text says: `kubectl get deviceclasses`, `kubectl dra get devices`.",
    ),
    ProblemCode.NOT_TRIED: Guidance(
        "There are nodes that could take the pod, and it is not bound.",
        "Its scheduler has not come to it yet, does not run, or has a rule that is not known here.",
        "Look at `spec.schedulerName`, and whether that one runs: `kubectl get leases -n kube-system`.",
    ),
    ProblemCode.REFUSED: Guidance(
        "The scheduler finds no node, for a reason that nodes, devices and claims do not show.",
        "Affinity between pods, volumes, a quota, a plugin of the scheduler: its own words say which.",
        "Read what the scheduler says: `kubectl describe pod NAME -n NAMESPACE`.",
    ),
    ProblemCode.UNSCHEDULABLE: Guidance(
        "No node can take the pod as things are.",
        "Each group of nodes in the output says what is in the way, and who has the devices.",
        "The lines `next` and `do`, if there are any; else wait for the claims that it names, or add nodes.",
    ),
    ProblemCode.OPEN_TO_ALL: Guidance(
        "Pods of every namespace can use the Reservation.",
        "An owner names neither a namespace nor the uid of a pod. Whoever creates a pod writes its name, its labels "
        "and its owner references, so tenants of other namespaces can take what is reserved.",
        "Write the namespace: `object.namespace`, which goes with `labelSelector` too, or `controller.namespace`. To "
        "have the API server refuse such owners: `reservations.ownersOfAnyNamespace: Deny` in the chart's values.",
    ),
}

PROBLEM_GUIDANCE: Final[Mapping[ProblemCode, Guidance]] = {
    trouble: _DIAGNOSIS_GUIDANCE[trouble] if trouble in _DIAGNOSIS_GUIDANCE else CODES[Code(trouble.value)]
    for trouble in ProblemCode
}
"""The guidance for all problem codes."""
