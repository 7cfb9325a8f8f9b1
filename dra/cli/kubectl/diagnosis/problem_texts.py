"""Texts for each kind of problem, and its remedy: a command to paste, or a choice to weigh.

`dra.engine.messages.remedies` defines which command may be a `SafeCommand`. A command about a pod also names the pod's
node and phase: it does nothing if, by the time that a user pastes it, the pod has started or another pod has its name.
A problem without a remedy here ends by waiting, or its guidance has the remedy.
"""

import shlex
from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.colocation_problem_texts import COLOCATION_PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.migration_problem_texts import MIGRATION_PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.pod_problem_texts import DELETE_COUNTED_POD, DELETE_POD, POD_PROBLEM_TEXTS
from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.engine.claims.reasons import list_names
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import Problem
from dra.engine.messages.documentation import page_url
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice, without_commands
from dra.engine.messages.texts import singularize

RELEASE_CLAIM: Final = SafeCommand("kubectl dra release claim {name} -n {namespace} --if-unused")
REPLACING_CONTROLLER_KINDS: Final = frozenset({"daemonset", "replicaset", "replicationcontroller", "statefulset"})
"""Kinds of controllers that replace a deleted pod and do not count the deletion."""

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
        WeighedChoice(
            "start the dra-reserve controller; to look for it: kubectl get pods -n {namespace}. To let pods start "
            "without it: kubectl dra ungate --help"
        ),
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
            "not begun, and its cost, until the annotation is removed. Without it {keeper} may lose the devices"
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
    **POD_PROBLEM_TEXTS,
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
