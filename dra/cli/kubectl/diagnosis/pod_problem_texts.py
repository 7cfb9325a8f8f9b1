"""Texts for the problems of pods that do not run yet, or whose devices fail them."""

from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.remedies import SafeCommand, WeighedChoice

DELETE_POD: Final = SafeCommand(
    "kubectl delete pods -n {namespace} --wait=false "
    "--field-selector metadata.name={name},spec.nodeName={node},status.phase=Pending"
)
DELETE_COUNTED_POD: Final = WeighedChoice(
    "delete the pod, which will not start on its node: its controller, {owner}, creates a new one. A Job counts the "
    "deletion as a failure; above its backoffLimit the Job fails and all its pods end"
)
"""Replaces `DELETE_POD` where the controller may count a deletion, as a Job does."""
OPEN_GATE: Final = SafeCommand(
    "kubectl patch -n {namespace} pod/{name} {others} -p "
    '\'{{"spec":{{"schedulingGates":[{{"name":"reserve.dra/claim","$patch":"delete"}}]}}}}\''
)
"""Removes our gate from all pods of the namespace that have it; gates of other controllers stay."""

POD_PROBLEM_TEXTS: Final[Mapping[ProblemCode, ProblemText]] = {
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
            "start the dra-reserve controller: it lists the pod at once. Where none is to run, delete the pod and "
            "create it again without spec.nodeName"
        ),
    ),
    ProblemCode.GATED: ProblemText(
        "has scheduling gate reserve.dra/claim, but no controller that would remove the gate is known to run (lease "
        "{lease}): start the controller, or remove the gate{count_text} (also from later pods: kubectl dra ungate "
        "--help)",
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
        "Koordinator considers the request",
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
}
