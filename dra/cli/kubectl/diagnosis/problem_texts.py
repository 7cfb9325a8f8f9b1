"""Texts for each kind of problem, and its remedy: a command to paste, or a choice to weigh.

`dra.engine.messages.remedies` defines which command may be a `SafeCommand`. A command about a pod also names the pod's
node and phase: it does nothing if, by the time that a user pastes it, the pod has started or another pod has its name.
A problem without a remedy here ends by waiting, or `dra.engine.diagnosis.problem_guidance` has its remedy.
"""

import shlex
from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.colocation_problem_texts import COLOCATION_PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.migration_problem_texts import MIGRATION_PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.problems import Problem, ProblemCode
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice, without_commands
from dra.engine.messages.texts import singularize

RELEASE_CLAIM: Final = SafeCommand("kubectl dra release claim {name} -n {namespace} --if-unused")
DELETE_POD: Final = SafeCommand(
    "kubectl delete pods -n {namespace} --wait=false "
    "--field-selector metadata.name={name},spec.nodeName={node},status.phase=Pending"
)
DELETE_COUNTED_POD: Final = WeighedChoice(
    "delete the pod, which will not start on its node: its controller, {owner}, creates a new one. A Job counts the "
    "deletion as a failure; above its backoffLimit the Job fails and all its pods end"
)
"""Replaces `DELETE_POD` where the controller may count a deletion, as a Job does."""

REPLACING_CONTROLLER_KINDS: Final = frozenset({"daemonset", "replicaset", "replicationcontroller", "statefulset"})
"""Kinds of controllers that replace a deleted pod and do not count the deletion."""

OPEN_GATE: Final = SafeCommand(
    "kubectl patch -n {namespace} pod/{name} {others} -p "
    '\'{{"spec":{{"schedulingGates":[{{"name":"reserve.dra/claim","$patch":"delete"}}]}}}}\''
)
"""Removes our gate from all pods of the namespace that have it; gates of other controllers stay."""
TAKE_OFF_FINALIZER: Final = SafeCommand(
    "kubectl patch resourceclaim -n {namespace} {name} --type=json -p "
    '\'[{{"op":"test","path":"/metadata/uid","value":"{uid}"}},'
    '{{"op":"test","path":"/metadata/finalizers","value":["resource.kubernetes.io/delete-protection"]}},'
    '{{"op":"remove","path":"/metadata/finalizers"}}]\''
)
DELETE_CLAIM: Final = SafeCommand(
    'echo \'{{"preconditions":{{"uid":"{uid}","resourceVersion":"{revision}"}}}}\' | '
    "kubectl delete --raw /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name} -f -"
)
"""Deletes the claim only if its resourceVersion is unchanged: it may have been allocated since."""

CLAIM_UNCHANGED: Final = "resourceclaim -n {namespace} {name} --resource-version={revision} "
"""Arguments for kubectl annotate: the claim, unless it was written since."""

FORCED_RELEASE_RISK: Final = "if a pod still uses the devices, two pods share a device. See: kubectl dra release --help"
WAIT_FOR_PODS: Final = WeighedChoice(
    "wait until these pods end: {whose}. Deleting a pod ends its work, and a controller creates a new pod"
)
SHOW_PODS: Final = WeighedChoice(
    "read what its pods wait for: kubectl describe pods -n {namespace} -l "
    "app.kubernetes.io/name=dra-reserve,app.kubernetes.io/component={component}"
)
GUESSED_WORKLOAD: Final = "Its pods belong to {guess}: if that is the workload, set the annotation to it"

PROBLEM_TEXTS: Final[Mapping[ProblemCode, ProblemText]] = {
    ProblemCode.HELD_TWICE: ProblemText(
        "device {device} is also allocated to claim {other}: end the pods of one of the two claims and delete that "
        "claim",
        WeighedChoice(
            "decide which claim keeps the device, end the pods of the other claim and delete that claim; what those "
            "pods do is lost. {count} pods use this claim: {whose}"
        ),
        needs=("count",),
        otherwise=WeighedChoice(
            "decide which claim keeps the device, end the pods of the other claim and delete that claim; no pod uses "
            "this one"
        ),
    ),
    ProblemCode.ALLOCATION_LOST: ProblemText(
        "is bound to node {node}, but claim {claim} is no longer allocated: its devices may be allocated to another "
        "claim",
        WeighedChoice(
            "delete the pod as soon as its work may be interrupted, because another pod may get its devices at any "
            "moment; its controller, {owner}, creates a new pod"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod as soon as its work may be interrupted, because another pod may get its devices at any "
            "moment; it has no controller that creates a new pod"
        ),
    ),
    ProblemCode.BOUND_WITHOUT_ALLOCATION: ProblemText(
        "is bound to node {node}, but claim {claim} is not allocated, and no scheduler allocates a claim for a bound "
        "pod: it will not start. Its creator set spec.nodeName, or its scheduler does not allocate claims",
        DELETE_POD,
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod and create it again without spec.nodeName; it has no controller that would create it"
        ),
    ),
    ProblemCode.OFF_ALLOCATION: ProblemText(
        "is bound to node {node}, which the allocation of claim {claim} excludes: it will not start",
        DELETE_POD,
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod and create it again without spec.nodeName; it has no controller that would create it"
        ),
    ),
    ProblemCode.PREPARE_REFUSED: ProblemText(
        "cannot start on node {node}, which refuses to prepare claim {claim}: {cause}. The claim keeps its CPUs from "
        "other pods",
        DELETE_POD,
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod and create it again, so that another node is found; it has no controller that would create "
            "it. Or wait until pods with CPUs on node {node} end"
        ),
    ),
    ProblemCode.UNGUARDED: ProblemText(
        "{count} pods use it, but neither they nor a guard entry are listed: a scheduler may deallocate it. A "
        "controller lists the pods",
    ),
    ProblemCode.NOT_FREED: ProblemText(
        "nothing keeps its devices, but no controller deallocates it: controller {presence} (lease {lease})",
        RELEASE_CLAIM,
    ),
    ProblemCode.FREED_SOON: ProblemText(
        "nothing keeps its devices: the running controller deallocates it, up to 120 s after it has started or found a "
        "guard entry"
    ),
    ProblemCode.LEFT_OVER: ProblemText(
        "is allocated, but has no entries and no pods: a pod could not be bound, and the next pod that references "
        "the claim uses the devices. If no such pod will come, release the claim",
        RELEASE_CLAIM,
    ),
    ProblemCode.KEPT_BY_OTHERS: ProblemText(
        "is kept only by {entries}, entries of other controllers; whether they still use it is unknown",
        WeighedChoice(
            "ask the owner of the controller that listed {entries}. If that controller was removed, the claim can be "
            "released by force; " + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.VANISHED: ProblemText(
        "stays reserved: {count} pods were deleted before the kubelet reported the end of their containers. A "
        "controller waits for their grace periods plus 70 s and reads their nodes"
    ),
    ProblemCode.NODE_LOST: ProblemText(
        "is kept for pods that were deleted while node {node} was not Ready",
        WeighedChoice(
            "repair node {node}; the claim is released some minutes later. If its machine is certainly off, a "
            "cluster administrator can add the taint node.kubernetes.io/out-of-service to the node or delete the "
            "node: all its pods end, and if the machine still runs, two pods share a device"
        ),
    ),
    ProblemCode.IN_DOUBT: ProblemText(
        "it is unknown whether {workload} still uses the claim",
        WeighedChoice(
            "wait: the claim is released when {workload} ends. It can be released earlier by force; "
            + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.RELEASE_WAITS: ProblemText(
        "{workload} has finished, but {count} unfinished pods reference the claim: {pods}", WAIT_FOR_PODS
    ),
    ProblemCode.DELETION_WAITS: ProblemText("is being deleted and waits for {count} pods: {pods}", WAIT_FOR_PODS),
    ProblemCode.ZOMBIE_CLAIM: ProblemText(
        "was created for {owner}, which no longer needs it",
        DELETE_CLAIM,
    ),
    ProblemCode.OWNERLESS: ProblemText(
        "was generated for entry {entry} of a pod, but has no owner, as after a restore from a backup: no component "
        "deletes it",
        WeighedChoice(
            "delete the claim if it is not to be used by its name: the pods of a restored workload get claims of their "
            "own, and no unfinished pod references this one"
        ),
    ),
    ProblemCode.FINALIZER_LEFT: ProblemText(
        "is being deleted and not allocated: only a finalizer that no controller removes keeps it", TAKE_OFF_FINALIZER
    ),
    ProblemCode.FINALIZER_FOREIGN: ProblemText(
        "is being deleted, but finalizer {finalizers} of another controller is still set",
        WeighedChoice(
            "ask the owner of the controller of {finalizers} what it waits for; if a user removes the finalizer, the "
            "cleanup of that controller does not happen"
        ),
    ),
    ProblemCode.UNKNOWN_ANNOTATION: ProblemText(
        "annotation {annotation} has no effect: the key is unknown",
        WeighedChoice("correct the key, probably to {meant}"),
        needs=("meant",),
        otherwise=WeighedChoice("correct the key or remove the annotation"),
    ),
    ProblemCode.POOL_INCOMPLETE: ProblemText(
        "its devices ({devices}{where}) cannot be allocated, because the pool is incomplete: {cause}. Its newest slice "
        "was created at {since}",
        WeighedChoice(
            "wait if its driver updates the pool just now. If this stays, the driver has died between two slices or "
            "counts them wrong: restart its plugin, which publishes all slices again. To see them: kubectl get "
            "resourceslices --field-selector spec.driver={driver}"
        ),
    ),
    ProblemCode.POOL_INVALID: ProblemText(
        "its devices ({devices}{where}) cannot be allocated, because the pool is invalid: {cause}. Its newest slice "
        "was created at {since}",
        WeighedChoice(
            "report this to the author of driver {driver}: the scheduler skips the pool without a word. To see its "
            "slices: kubectl get resourceslices --field-selector spec.driver={driver}"
        ),
    ),
    ProblemCode.NEGATIVE_SHARE: ProblemText(
        "its allocation consumes a negative amount of {capacities}: other claims get more of the device than there is, "
        "and kube-scheduler 1.38 places no pod with claims at all",
        WeighedChoice(
            "end the pods of the claim, and delete the claim: its next allocation is right. No scheduler writes such "
            "an amount; to see who did: kubectl get resourceclaim -n {namespace} {name} -o yaml --show-managed-fields"
        ),
    ),
    ProblemCode.UPGRADE_OBSTACLE: ProblemText(
        "stands in the way of Kubernetes 1.38: {cause}",
        WeighedChoice(
            f"before an upgrade to 1.38, change the object, or upgrade the driver: "
            f"{page_url('how-to/upgrade.md')}#before-kubernetes-138"
        ),
    ),
    ProblemCode.NO_CONTROLLER: ProblemText(
        "is {presence}: no dra-reserve controller is known to run. {gated} pods wait for the removal of their "
        "scheduling gate, {claims} claims in use have no entry of their workload, {reserved} reserved claims with "
        "devices are not released: {objects}",
        WeighedChoice("start the dra-reserve controller; to look for it: kubectl get pods -n {namespace}"),
    ),
    ProblemCode.NOT_ENTERED: ProblemText(
        "does not list {workload}, whose pods use it: no dra-reserve controller is known to run (lease {lease})",
    ),
    ProblemCode.NO_REPLICA_READY: ProblemText(
        "{ready} of {desired} replicas of the {component} are Ready",
        SHOW_PODS,
        needs=("desired",),
        otherwise=WeighedChoice(
            "scale it to 2 replicas, or remove the installation: kubectl dra uninstall --dry-run shows what goes"
        ),
    ),
    ProblemCode.REPLICAS_NOT_READY: ProblemText(
        "{ready} of {desired} replicas of the {component} are Ready", SHOW_PODS
    ),
    ProblemCode.STALE_ENTRIES: ProblemText(
        "lists {count} pods that have ended: {entries}; until a controller removes these entries, they take up room "
        "in the list"
    ),
    ProblemCode.TOMBSTONES: ProblemText("has {count} tombstones of deleted pods; a controller removes them"),
    ProblemCode.MARKS_LEFT: ProblemText(
        "has annotations about a former allocation",
        SafeCommand(
            "kubectl annotate " + CLAIM_UNCHANGED + "reserve.dra/entered-allocation- reserve.dra/reserved-for-any-pod-"
        ),
    ),
    ProblemCode.IDLE: ProblemText(
        "is reserved for {workload}, which has no pods now. The claim stays allocated until the workload ends, as "
        "intended"
    ),
    ProblemCode.WAITS_FOR_ITSELF: ProblemText(
        "is kept for {workload} and used by no pod, while {count} pods of {workload} wait for such devices: {pods}. "
        "The workload waits for itself",
        WeighedChoice(
            "if no further pod of {workload} names claim {name}, release the claim, and the waiting pods get its "
            "devices; " + FORCED_RELEASE_RISK + ". Otherwise the workload needs more devices than there are"
        ),
    ),
    ProblemCode.RESERVATION_IGNORED: ProblemText(
        "is not reserved for {workload}: {cause}",
        WeighedChoice(
            "to keep devices for all pods of {workload}, create one ResourceClaim with annotation "
            "reserve.dra/reserved-for and name it in the pod template (resourceClaimName); otherwise remove the "
            "annotation from the ResourceClaimTemplate"
        ),
        needs=("pod",),
        otherwise=WeighedChoice(
            "remove the annotation: on a ResourceClaimTemplate it has no effect, and each pod gets a claim of its own. "
            "To keep devices for all pods of {workload}, create one ResourceClaim with the annotation"
        ),
    ),
    ProblemCode.KEPT_WHILE_SUSPENDED: ProblemText(
        "is reserved for {workload}, which is suspended and has no pods: no other claim can get its devices",
        WeighedChoice("{advice}; the resumed workload may then get other devices"),
    ),
    ProblemCode.MALFORMED: ProblemText(
        "the workload reference is ignored: {error}",
        WeighedChoice("correct annotation reserve.dra/reserved-for. " + GUESSED_WORKLOAD),
        needs=("guess",),
        otherwise=WeighedChoice(
            "correct annotation reserve.dra/reserved-for; until then the claim is reserved for no workload"
        ),
    ),
    ProblemCode.WORKLOAD_NOT_FOUND: ProblemText(
        "refers to {workload}, which does not exist",
        WeighedChoice("create {workload}, or correct annotation reserve.dra/reserved-for. " + GUESSED_WORKLOAD),
        needs=("guess",),
        otherwise=WeighedChoice("create {workload}; the claim is then reserved for it"),
    ),
    ProblemCode.WRONG_UID: ProblemText(
        "is reserved for {workload} with uid {expected}, which was deleted; the present object has uid {actual}",
        WeighedChoice(
            "if the claim is meant for the present {workload}, set annotation reserve.dra/reserved-for-uid to "
            "{actual}; the claim then stays reserved until that workload ends"
        ),
    ),
    ProblemCode.KIND_UNKNOWN: ProblemText(
        "refers to {workload}, but the API server does not serve {kind}",
        SafeCommand("kubectl annotate " + CLAIM_UNCHANGED + "--overwrite reserve.dra/reserved-for={meant}"),
        needs=("meant",),
        otherwise=WeighedChoice(
            "correct annotation reserve.dra/reserved-for, or have the CRD of {kind} installed. See: kubectl "
            "api-resources"
        ),
    ),
    ProblemCode.FORCE_IGNORED: ProblemText(
        "annotation reserve.dra/force-release has no effect: its value is not the uid of this claim",
        WeighedChoice(
            "remove the annotation if it was meant for another claim, perhaps an earlier one of this name. If you "
            "want to release this claim by force: " + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.FORCE_BLOCKED: ProblemText(
        "cannot be released by force: {count} pods use it on nodes that are Ready: {pods}", WAIT_FOR_PODS
    ),
    ProblemCode.NODE_CORDONED: ProblemText(
        "is allocated on {nodes}, which is cordoned, and {pods} pods wait for it",
        WeighedChoice(
            "wait: a controller deallocates claims that no pod can use. The administrator who cordoned {nodes}, "
            "usually to drain it, decides when it accepts pods again"
        ),
    ),
    ProblemCode.NODE_MAY_BE_DELETED: ProblemText(
        "is kept for {keeper} without a pod, and autoscalers count pods alone: {nodes} may be deleted as empty "
        "({signs})",
        WeighedChoice(
            "the owner of the node decides: annotation {annotations} with value true keeps a node whose deletion has "
            "not begun, and its cost, until somebody removes the annotation. Without it {keeper} may lose the devices"
        ),
    ),
    ProblemCode.NODE_STAYS_ANNOTATED: ProblemText(
        "is kept from autoscalers by annotations of the dra-reserve controller, but no claim is kept there: "
        "{annotations}",
        WeighedChoice(
            "a controller with the permission to patch nodes removes the annotations, also with annotateNodes: false. "
            "If none is to run, the owner of the node removes them; the node then may be deleted, and its pods move"
        ),
    ),
    ProblemCode.STUCK: ProblemText(
        "no pod can use its allocation ({cause}) and {pods} pods wait; a controller deallocates the claim in about a "
        "minute",
        WeighedChoice(
            "wait: the dra-reserve controller deallocates the claim, and the scheduler allocates it again. Other "
            "claims may get the devices first"
        ),
    ),
    ProblemCode.DEVICE_GONE: ProblemText("device {device} is allocated, but no driver offers it"),
    ProblemCode.DEVICE_TAINTED: ProblemText(
        "device {device} has the taint {taint} by {origin}: pods that use it are evicted{after}"
    ),
    ProblemCode.DEVICE_IMPAIRED: ProblemText(
        "device {device} has the taint {taint} of its driver: pods that use it go on, and may fail"
    ),
    ProblemCode.DEVICE_CLOSED: ProblemText(
        "device {device} has the taint {taint} of a DeviceTaintRule: pods that use it go on"
    ),
    ProblemCode.DEVICE_CONDITION: ProblemText(
        "the driver reports for device {device} that condition {condition} is False{reason}",
        WeighedChoice(
            "read the message of the condition: kubectl get resourceclaim -n {namespace} {name} -o yaml. The claim "
            "keeps the device until its pods end"
        ),
    ),
    ProblemCode.NOT_PREPARED: ProblemText(
        "does not start, because node {node} has not prepared its devices or its sandbox (tried {count} times, last at "
        "{last}): {message}",
        WeighedChoice(
            "check the plugin of driver {driver} on node {node}, which must run and register there; the pod then "
            "starts by itself. To look for it: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
        ),
        needs=("driver",),
        otherwise=WeighedChoice(
            "read the log of the driver's plugin on node {node}; the kubelet tries again until the pod is deleted, and "
            "its claims keep their devices. To look for the plugin: kubectl get pods -A -o wide --field-selector "
            "spec.nodeName={node}"
        ),
    ),
    ProblemCode.CONTAINER_NOT_RUNNING: ProblemText(
        "keeps devices of node {node}, but container {container} does not run: {error}",
        WeighedChoice(
            "check that the container runtime of node {node} has CDI enabled and sees the CDI specs of the driver, "
            "whose plugin writes the spec of a claim when the pod starts: a pod that is created again gets a new one. "
            "To look for the plugin: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
        ),
        needs=("cdi",),
        otherwise=WeighedChoice(
            "read what the container and the kubelet say: kubectl describe pod -n {namespace} {name}. Its claims keep "
            "their devices until the pod ends"
        ),
    ),
    ProblemCode.DEVICE_UNHEALTHY: ProblemText(
        "the kubelet reports device {device} as unhealthy{message}",
        WeighedChoice(
            "delete the pod as soon as its work may be interrupted: its controller, {owner}, creates a new pod, and a "
            "claim of its own gets another device. A claim that other pods use keeps the device"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "end the pod as soon as its work may be interrupted, and create it again: it has no controller that does. "
            "A claim that other pods use keeps the device"
        ),
    ),
    ProblemCode.LIST_FULL: ProblemText(
        "its list is full: {listed} of 256 entries are taken, {finished} of these by finished pods; {pods} pods wait "
        "for an entry",
        WeighedChoice(
            "delete finished pods of this claim if their logs are not needed; with the stock "
            "resourceclaim-controller, each pod keeps its entry until it is deleted"
        ),
        needs=("finished",),
        otherwise=WeighedChoice(
            "wait until pods that use the claim end, or run the dra-reserve controller in mode replace"
        ),
    ),
    ProblemCode.TIMELESS: ProblemText(
        "its allocation has no timestamp (Kubernetes before 1.36): after a restart, a controller may not know its age"
    ),
    ProblemCode.NODE_NOT_READY: ProblemText(
        "is bound to node {node}, which is not Ready: it cannot start there, and only a new pod can start on another "
        "node",
        WeighedChoice(
            "repair node {node}, or delete the pod: its controller, {owner}, creates a new one. The old pod stays, "
            "and may run, until its node is Ready again"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "repair node {node}; the pod has no controller that would create a new one on another node"
        ),
    ),
    ProblemCode.TERMINATING: ProblemText(
        "is being deleted, but its node {node} is not Ready: no kubelet ends it, and it keeps its devices",
        WeighedChoice(
            "repair node {node}: the pod then ends. If its machine is certainly off, a cluster administrator can add "
            "the taint node.kubernetes.io/out-of-service to the node: all its pods end, and if the machine still "
            "runs, two pods share a device"
        ),
    ),
    ProblemCode.UNLISTED: ProblemText(
        "is bound to node {node} but not listed in claim {claim}: the kubelet rejects it. A controller lists it; "
        "without a controller, delete it so that its owner creates a new pod",
        DELETE_POD,
        needs=("owner", "alone"),
        otherwise=WeighedChoice(
            "start our controller: it lists the pod at once. Where none is to run, delete the pod and create it "
            "again without spec.nodeName"
        ),
    ),
    ProblemCode.GATED: ProblemText(
        "has scheduling gate reserve.dra/claim, but no controller that would remove the gate is known to run (lease "
        "{lease}): start the controller, or remove the gate{count_text}",
        OPEN_GATE,
    ),
    ProblemCode.GATE_UNKNOWN: ProblemText(
        "waits behind scheduling gate reserve.dra/claim, which the dra-reserve controller removes within seconds; you "
        "may not read its lease ({lease}), so whether it runs is unknown"
    ),
    ProblemCode.GATED_BY_OTHERS: ProblemText("has scheduling gates that other controllers remove: {gates}"),
    ProblemCode.NOT_ADMITTED: ProblemText(
        "names claim {claim} and waits behind scheduling gate {gate}: Kueue 0.18 and later does not admit such pods"
    ),
    ProblemCode.CLAIM_MISSING: ProblemText(
        "references claim {claim}, which does not exist{hint}: create the claim or correct the name",
        WeighedChoice(
            "there is claim {similar}. A pod uses only claims of its own namespace: create the claim there, or create "
            "the pod again with the right name"
        ),
        needs=("similar",),
        otherwise=WeighedChoice("create the claim, or create the pod again with the right name"),
    ),
    ProblemCode.CLAIM_NOT_MADE: ProblemText(
        "waits for a claim from template {template}, which does not exist yet: a claim controller creates it (that of "
        "kube-controller-manager, or the dra-reserve controller in mode replace)",
        WeighedChoice(
            "wait some seconds, then read the Events of the pod: kubectl describe pod {name} -n {namespace}. A claim "
            "controller reports there why it cannot create the claim. Without such an Event, no claim controller "
            "works: a dra-reserve controller runs, but creates claims in mode replace only"
        ),
        needs=("running",),
        otherwise=WeighedChoice(
            "wait some seconds, then read the Events of the pod: kubectl describe pod {name} -n {namespace}. Without "
            "an Event about the claim, no claim controller works: start kube-controller-manager, or install the "
            "dra-reserve controller in mode replace. kubectl dra preflight shows what it finds"
        ),
    ),
    ProblemCode.TEMPLATE_MISSING: ProblemText(
        "waits for a claim from template {template}, which does not exist{hint}: create the template"
    ),
    ProblemCode.REQUEST_TEMPLATE_MISSING: ProblemText(
        "waits for template {template}, which the controller makes for its request in Koordinator's form",
        WeighedChoice(
            "wait some seconds; if the template is still missing, check whether the dra-reserve controller runs with "
            "koordinator: true, and read the Events of the pod"
        ),
        needs=("makes",),
        otherwise=WeighedChoice(
            "no node publishes cards for shares, so the bytes of a ratio are unknown: start the kubelet plugin with "
            "--gpu-shares on nodes with GPUs, or ask for gpu-memory in bytes"
        ),
    ),
    ProblemCode.NAMESPACE_NOT_ENABLED: ProblemText(
        "has a request in Koordinator's form, but namespace {namespace} is not enabled: only a scheduler of "
        "Koordinator heeds the request",
        WeighedChoice(
            "to have the request translated: the owner of namespace {namespace} sets its label "
            "reserve.dra/koordinator to enabled and creates the pod again; a stored pod cannot be translated"
        ),
    ),
    ProblemCode.NOT_TRANSLATED: ProblemText(
        "has a request in Koordinator's form that was not translated, although namespace {namespace} is enabled",
        WeighedChoice(
            "check whether the policies of component koordinator are installed, and create the pod again: it is older "
            "than them or than the label of the namespace"
        ),
        needs=("served",),
        otherwise=WeighedChoice(
            "the API server is older than Kubernetes 1.36 and has no such policies: apply the manifest anew with this "
            "command line tool, which translates the request"
        ),
    ),
    ProblemCode.CLAIM_DELETING: ProblemText(
        "references claim {claim}, which is being deleted: no new pod can use the claim"
    ),
    ProblemCode.UNSATISFIABLE: ProblemText("claim {claim} cannot be satisfied anywhere: {error}"),
    ProblemCode.AWAITS_BINDING: ProblemText(
        "has devices, and its binding waits for condition {condition} of device {device} (claim {claim}) since "
        "{since}{said}"
    ),
    ProblemCode.BINDING_FAILED: ProblemText(
        "was not bound: device {device} of claim {claim} reports {condition} since {since}{said}"
    ),
    ProblemCode.NOT_TRIED: ProblemText(
        "{nodes} nodes can run it, but scheduler {scheduler} has not tried it yet, or does not run",
    ),
    ProblemCode.REFUSED: ProblemText(
        "scheduler {scheduler} finds no node, although {nodes} nodes seem to fit: {message}",
        WeighedChoice(
            "the allocation of another claim has a negative amount, and kube-scheduler places no pod with claims until "
            "that claim is gone. To find the claim: kubectl dra audit"
        ),
        needs=("negative",),
        otherwise=WeighedChoice("read what the scheduler says: kubectl describe pod -n {namespace} {name}"),
    ),
    ProblemCode.POD_TOO_LARGE: ProblemText(
        "requests more than any node has ({amounts} on a node)",
        WeighedChoice("correct the requests, and create the pod again, or add larger nodes; waiting does not help"),
    ),
    ProblemCode.UNSCHEDULABLE: ProblemText("none of {nodes} nodes can run it"),
    ProblemCode.OPEN_TO_ALL: ProblemText(
        "{owners}: no namespace is set, so any user who can create pods in any namespace can use it",
    ),
    ProblemCode.RESERVED_CAPACITY_SHORT: ProblemText(
        "what {reservations} hold is short of {lacking}: {cause}",
    ),
    **MIGRATION_PROBLEM_TEXTS,
    **COLOCATION_PROBLEM_TEXTS,
}


def problem_remedy(problem: Problem, *, within: str | None = None) -> Remedy | None:
    """Return the remedy of a problem, with names; None if none is known here.

    `within` is the namespace that the user asked about, None for all namespaces. A command for an object in another
    namespace is for the owner of that object to run.
    """
    numbers, words = problem.facts_by_name, PROBLEM_TEXTS[problem.code]
    remedy = words.remedy if all(numbers.get(need) for need in words.needs) else words.otherwise
    if remedy is DELETE_POD and _controller_kind(str(numbers.get("owner", ""))) not in REPLACING_CONTROLLER_KINDS:
        remedy = DELETE_COUNTED_POD
    namespace = problem.subject.key[0]
    if isinstance(remedy, SafeCommand) and within not in {None, namespace}:
        return WeighedChoice(f"ask the owner of namespace {namespace}, who owns {problem.subject}")
    return fill_in(remedy, numbers)


def _controller_kind(owner: str) -> str:
    """Return the kind of a controller from a text of `dra.engine.diagnosis.claims.controller_name`: "job train".

    The text may begin with "another", as in "another job train".
    """
    return owner.removeprefix("another ").partition(" ")[0]


def safe_command(problem: Problem, *, within: str | None = None) -> str:
    """Return the command that is safe to paste; empty if there is none."""
    remedy = problem_remedy(problem, within=within)
    return remedy.command if isinstance(remedy, SafeCommand) else ""


def problem_text(problem: Problem) -> str:
    """Return the text of a problem, object first."""
    return f"{problem.subject}: {problem_note(problem)}"


def problem_note(problem: Problem) -> str:
    """Return the text of a problem without its object; a command has all the names, a text only some."""
    numbers = {
        key: without_commands(value) if isinstance(value, str) else value
        for key, value in problem.facts_by_name.items()
    }
    pods = str(numbers.get("pods", "")).split()
    if len(pods) > 1:
        rest = int(numbers.get("count", 0)) - len(pods)
        numbers["pods"] = list_names([*pods, *[""] * max(rest, 0)])
    return singularize(PROBLEM_TEXTS[problem.code].text.format(**numbers))


def fill_in(remedy: Remedy | None, facts: Mapping[str, str | int]) -> Remedy | None:
    """Return a remedy with its names filled in; names must not be able to add commands, nor to end a line."""
    if isinstance(remedy, WeighedChoice):
        values = {key: without_commands(" ".join(str(value).split())) for key, value in facts.items()}
        return WeighedChoice(singularize(remedy.text.format(**values)))
    if isinstance(remedy, SafeCommand):
        quoted = {key: " ".join(shlex.quote(word) for word in str(value).split()) for key, value in facts.items()}
        return SafeCommand(" ".join(remedy.command.format(**quoted).split()))
    return None
