"""Texts for each kind of problem, and its remedy: a command to paste, or a choice to weigh.

`dra.engine.messages.remedies` defines which command may be a `SafeCommand`. A command about a pod also names the pod's
node and phase: it does nothing if, by the time that a user pastes it, the pod has started or another pod has its name.
A problem without a remedy here ends by waiting, or `dra.engine.diagnosis.problem_guidance` has its remedy.
"""

import shlex
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from dra.engine.claims.meanings import CODES
from dra.engine.claims.reasons import list_names
from dra.engine.cpus.failures import CPU_FAILURE_GUIDANCE
from dra.engine.diagnosis.pods import AdvisedAction, SchedulingAdvice
from dra.engine.diagnosis.problem_guidance import PROBLEM_GUIDANCE
from dra.engine.diagnosis.problems import Problem, ProblemCode
from dra.engine.messages.impairments import IMPAIRMENTS
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice, without_commands
from dra.engine.messages.texts import Guidance, singularize
from dra.engine.reservations.reservation_guidance import REJECTION_GUIDANCE, RESERVATION_REASON_GUIDANCE


class ProblemText(NamedTuple):
    """The texts for a kind of problem, as templates that are filled with the facts of the problem."""

    text: str
    remedy: Remedy | None = None
    needs: tuple[str, ...] = ()
    """Facts that must be present, neither empty nor 0, for `remedy` to apply."""

    otherwise: Remedy | None = None
    """Remedy that applies where one of these facts is missing."""


RELEASE_CLAIM: Final = SafeCommand("kubectl dra release claim {name} -n {namespace} --if-unused")
DELETE_POD: Final = SafeCommand(
    "kubectl delete pods -n {namespace} --wait=false "
    "--field-selector metadata.name={name},spec.nodeName={node},status.phase=Pending"
)
DELETE_COUNTED_POD: Final = WeighedChoice(
    "delete the pod, which will not start here: its controller, {owner}, makes another one. A Job counts the deletion "
    "as a failure; past its backoffLimit the Job fails, and all its pods end"
)
"""Replaces `DELETE_POD` where the controller may count a deletion, as a Job does."""

REPLACING_CONTROLLER_KINDS: Final = frozenset({"daemonset", "replicaset", "replicationcontroller", "statefulset"})
"""Kinds of controllers that replace a deleted pod and do not count the deletion."""

OPEN_GATE: Final = SafeCommand(
    "kubectl patch pod -n {namespace} {name} --type=json -p "
    '\'[{{"op":"test","path":"/spec/schedulingGates","value":[{{"name":"reserve.dra/claim"}}]}},'
    '{{"op":"remove","path":"/spec/schedulingGates"}}]\''
)
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

FORCED_RELEASE_RISK: Final = (
    "if a pod uses the devices after all, two pods share a device. How to release it: kubectl dra release --help"
)
WAIT_FOR_PODS: Final = WeighedChoice(
    "wait for these pods to end: {whose}. Deleting a pod ends its work, and a controller makes another one"
)
GUESSED_WORKLOAD: Final = "Its pods belong to {guess}: if that is the workload, write it there"

PROBLEM_TEXTS: Final[Mapping[ProblemCode, ProblemText]] = {
    ProblemCode.HELD_TWICE: ProblemText(
        "device {device} is also allocated to claim {other}: end the pods of one of the two, and that claim",
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
        "is bound to node {node}, but claim {claim} has no allocation any more: its devices may be given away",
        WeighedChoice(
            "delete the pod as soon as its work may be interrupted, since another pod may get its devices any moment; "
            "its controller, {owner}, makes another pod"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod as soon as its work may be interrupted, since another pod may get its devices any moment; "
            "it has no controller that makes another one"
        ),
    ),
    ProblemCode.OFF_ALLOCATION: ProblemText(
        "is bound to node {node}, which the allocation of claim {claim} excludes: it will not start",
        DELETE_POD,
        needs=("owner",),
        otherwise=WeighedChoice(
            "delete the pod and create it anew, without spec.nodeName; it has no controller that would do so"
        ),
    ),
    ProblemCode.UNGUARDED: ProblemText(
        "{count} pods use it without an entry, and nothing in the list stands for them: a scheduler may give its "
        "devices away. A controller lists them",
    ),
    ProblemCode.NOT_FREED: ProblemText(
        "nothing keeps its devices any more and nobody gives them back: controller {presence} (lease {lease})",
        RELEASE_CLAIM,
    ),
    ProblemCode.LEFT_OVER: ProblemText(
        "has devices, an empty list and no pods: a pod that could not be bound left it so, and the next one that names "
        "the claim uses them. If none will come, give them back",
        RELEASE_CLAIM,
    ),
    ProblemCode.KEPT_BY_OTHERS: ProblemText(
        "is kept by {entries} alone, listed by others; nobody here can tell whether they still use it",
        WeighedChoice(
            "ask whoever runs the controller that listed {entries}. If that controller is gone for good, the claim can "
            "be released by force; " + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.VANISHED: ProblemText(
        "stays reserved: {count} pods vanished before anybody told that their containers had ended. A controller waits "
        "for their grace periods and 70 s, and reads their nodes"
    ),
    ProblemCode.NODE_LOST: ProblemText(
        "is kept for pods that vanished from node {node} while it did not report in",
        WeighedChoice(
            "bring node {node} back; the claim is free some minutes later. If its machine is certainly off, whoever "
            "runs the cluster can taint the node node.kubernetes.io/out-of-service or delete it: all its pods end, and "
            "if the machine runs after all, two pods share a device"
        ),
    ),
    ProblemCode.IN_DOUBT: ProblemText(
        "nobody can tell whether {workload} still has the claim",
        WeighedChoice(
            "the claim is released with {workload}. It can be released by force before; " + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.RELEASE_WAITS: ProblemText(
        "{workload} is over, but {count} unfinished pods reference the claim: {pods}", WAIT_FOR_PODS
    ),
    ProblemCode.DELETION_WAITS: ProblemText("is being deleted and waits for {count} pods: {pods}", WAIT_FOR_PODS),
    ProblemCode.ZOMBIE_CLAIM: ProblemText(
        "was made for {owner}, which needs it no more",
        DELETE_CLAIM,
    ),
    ProblemCode.FINALIZER_LEFT: ProblemText(
        "is being deleted and has no allocation: only a finalizer that nobody takes off keeps it", TAKE_OFF_FINALIZER
    ),
    ProblemCode.FINALIZER_FOREIGN: ProblemText(
        "is being deleted, and waits for whoever takes off finalizer {finalizers}",
        WeighedChoice(
            "ask whoever runs the controller of {finalizers} what it waits for: what a finalizer stands for is left "
            "undone if somebody takes it off by hand"
        ),
    ),
    ProblemCode.UNKNOWN_ANNOTATION: ProblemText(
        "annotation {annotation} means nothing: no process of ours knows that key",
        WeighedChoice("correct the key, most likely to {meant}"),
        needs=("meant",),
        otherwise=WeighedChoice("correct the key, or take the annotation off"),
    ),
    ProblemCode.NO_CONTROLLER: ProblemText(
        "is {presence}: no controller of ours is known to run. {gated} pods stand behind its gate, {claims} claims in "
        "use are not entered for their workloads: {objects}",
        WeighedChoice("start our controller; whether one is there: kubectl get pods -n {namespace}"),
    ),
    ProblemCode.NOT_ENTERED: ProblemText(
        "is to be reserved for {workload}, whose pods use it, and no controller of ours is known to run (lease "
        "{lease}) that would enter the workload",
    ),
    ProblemCode.STALE_ENTRIES: ProblemText(
        "lists {count} pods that have ended: {entries}; a controller takes them off, meanwhile they take room"
    ),
    ProblemCode.TOMBSTONES: ProblemText("has {count} tombstones of pods that are gone; a controller takes them off"),
    ProblemCode.MARKS_LEFT: ProblemText(
        "has notes about an allocation that is no more",
        SafeCommand(
            "kubectl annotate " + CLAIM_UNCHANGED + "reserve.dra/entered-allocation- reserve.dra/reserved-for-any-pod-"
        ),
    ),
    ProblemCode.IDLE: ProblemText(
        "is reserved for {workload}, which has no pods now: that is what a reservation is for. It is given back when "
        "the workload is over"
    ),
    ProblemCode.MALFORMED: ProblemText(
        "the workload reference is ignored: {error}",
        WeighedChoice("correct annotation reserve.dra/reserved-for. " + GUESSED_WORKLOAD),
        needs=("guess",),
        otherwise=WeighedChoice(
            "correct annotation reserve.dra/reserved-for; until then the claim is reserved for nobody"
        ),
    ),
    ProblemCode.WORKLOAD_NOT_FOUND: ProblemText(
        "is to be reserved for {workload}, which does not exist",
        WeighedChoice("create {workload}, or correct annotation reserve.dra/reserved-for. " + GUESSED_WORKLOAD),
        needs=("guess",),
        otherwise=WeighedChoice("create {workload}: the claim is reserved for it from then on"),
    ),
    ProblemCode.WRONG_UID: ProblemText(
        "is reserved for {workload} with uid {expected}, which is gone; the one there now has uid {actual}",
        WeighedChoice(
            "if the claim is for the {workload} that is there now, set annotation reserve.dra/reserved-for-uid to "
            "{actual}; the claim then stays reserved until that one is over"
        ),
    ),
    ProblemCode.KIND_UNKNOWN: ProblemText(
        "is to be reserved for {workload}, but the API server has no resource {kind}",
        SafeCommand("kubectl annotate " + CLAIM_UNCHANGED + "--overwrite reserve.dra/reserved-for={meant}"),
        needs=("meant",),
        otherwise=WeighedChoice(
            "correct annotation reserve.dra/reserved-for, or have the CRD installed that defines {kind}; "
            "kubectl api-resources lists what the API server has"
        ),
    ),
    ProblemCode.FORCE_IGNORED: ProblemText(
        "annotation reserve.dra/force-release is not the uid of this claim, so nothing is done",
        WeighedChoice(
            "take the annotation off if it was meant for another claim, perhaps a former one of this name. If this "
            "claim is to be released by force: " + FORCED_RELEASE_RISK
        ),
    ),
    ProblemCode.FORCE_BLOCKED: ProblemText(
        "is to be released by force, but {count} pods use it on nodes that are Ready: {pods}", WAIT_FOR_PODS
    ),
    ProblemCode.NODE_CORDONED: ProblemText(
        "is allocated on {nodes}, where no new pod may go, and {pods} pods wait for it",
        WeighedChoice(
            "wait: an allocation that nobody can use is taken back. Whoever cordoned {nodes}, most often to drain it, "
            "decides when it takes pods again"
        ),
    ),
    ProblemCode.STUCK: ProblemText(
        "no pod can use its allocation ({cause}) and {pods} pods wait; a controller takes it back in a minute or so",
        WeighedChoice(
            "wait: our controller takes the allocation back, and the scheduler chooses again. Other claims may get the "
            "devices first"
        ),
    ),
    ProblemCode.DEVICE_GONE: ProblemText("device {device} is allocated, but no driver offers it any more"),
    ProblemCode.DEVICE_TAINTED: ProblemText(
        "device {device} has the taint {taint} by {origin}: pods that use it are evicted"
    ),
    ProblemCode.LIST_FULL: ProblemText(
        "{pods} pods wait: {listed} of 256 entries are taken, {finished} of them by pods that have finished",
        WeighedChoice(
            "delete pods of this claim that have finished, if nobody needs their logs; beside the stock "
            "resourceclaim-controller each keeps its entry until it is deleted"
        ),
        needs=("finished",),
        otherwise=WeighedChoice("wait for pods that use the claim to end, or run our controller in mode replace"),
    ),
    ProblemCode.TIMELESS: ProblemText(
        "its allocation has no timestamp (Kubernetes before 1.36): a controller that starts anew may be in doubt"
    ),
    ProblemCode.NODE_NOT_READY: ProblemText(
        "is bound to node {node}, which does not report in: it cannot start there, and elsewhere only as another pod",
        WeighedChoice(
            "bring node {node} back, or delete the pod: its controller, {owner}, makes another one, and this one stays "
            "until its node answers, where it may run meanwhile"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "bring node {node} back; the pod has no controller that would create another one elsewhere"
        ),
    ),
    ProblemCode.TERMINATING: ProblemText(
        "is being deleted, but its node {node} does not report in: nothing ends it there, and it keeps its devices",
        WeighedChoice(
            "bring node {node} back: the pod ends then. If its machine is certainly off, whoever runs the cluster can "
            "taint the node node.kubernetes.io/out-of-service: all its pods end, and if the machine runs after all, "
            "two pods share a device"
        ),
    ),
    ProblemCode.UNLISTED: ProblemText(
        "is bound to node {node} and not listed in claim {claim}: its kubelet refuses it. A controller lists it; "
        "without one, let its owner start it again",
        DELETE_POD,
        needs=("owner", "alone"),
        otherwise=WeighedChoice(
            "start our controller: it lists the pod at once. Where none is to run, delete the pod and create it anew, "
            "without spec.nodeName"
        ),
    ),
    ProblemCode.GATED: ProblemText(
        "stands behind the gate reserve.dra/claim, and no controller is known to run (lease {lease}) that would take "
        "it off; without one",
        OPEN_GATE,
        needs=("alone",),
        otherwise=WeighedChoice(
            "find out whether our controller runs: kubectl get pods -n dra-reserve; it opens the gate"
        ),
    ),
    ProblemCode.GATED_BY_OTHERS: ProblemText("stands behind scheduling gates of others, which they take off: {gates}"),
    ProblemCode.CLAIM_MISSING: ProblemText("names claim {claim}, which does not exist: create it, or correct the name"),
    ProblemCode.CLAIM_NOT_MADE: ProblemText(
        "waits for a claim to be made from template {template}: no claim controller does it (kube-controller-manager, "
        "or ours in mode replace)"
    ),
    ProblemCode.TEMPLATE_MISSING: ProblemText(
        "waits for a claim from template {template}, which does not exist: create it"
    ),
    ProblemCode.CLAIM_DELETING: ProblemText("names claim {claim}, which is being deleted: no new pod can use it"),
    ProblemCode.UNSATISFIABLE: ProblemText("claim {claim} cannot be satisfied anywhere: {error}"),
    ProblemCode.NOT_TRIED: ProblemText(
        "{nodes} nodes could take it: scheduler {scheduler} has not tried it yet, or does not run",
    ),
    ProblemCode.REFUSED: ProblemText(
        "scheduler {scheduler} finds no node, though {nodes} nodes have what is known here: {message}",
    ),
    ProblemCode.UNSCHEDULABLE: ProblemText("none of {nodes} nodes can take it"),
    ProblemCode.OPEN_TO_ALL: ProblemText(
        "{owners}: no namespace is named, so whoever can create pods in any namespace can use it",
    ),
}

ADVICE_REMEDIES: Final[Mapping[AdvisedAction, Remedy]] = {
    AdvisedAction.UNCORDON: WeighedChoice(
        "node {node} could take the pod, but is cordoned: whoever cordoned it, most often to drain it, decides when it "
        "takes pods again"
    ),
    AdvisedAction.UNTAINT: WeighedChoice(
        "node {node} could take the pod, but has the taint {detail}: a pod that may run there says so by a toleration "
        "in its template; somebody has set the taint to keep other pods away"
    ),
    AdvisedAction.LABEL: WeighedChoice(
        "node {node} could take the pod, but has no label {detail}: correct the node selector in the pod's template, "
        "or ask whoever runs the cluster whether the node should have that label"
    ),
    AdvisedAction.TOLERATE: WeighedChoice(
        "node {node} has devices for the pod, but with the taint {detail}: a request that may use such devices says so "
        "by a toleration in the claim or its template; their driver or a DeviceTaintRule keeps other claims away"
    ),
    AdvisedAction.WAIT: SafeCommand("kubectl dra wait claim {name} -n {namespace} --for=released"),
}


def problem_remedy(problem: Problem, *, within: str | None = None) -> Remedy | None:
    """Return the remedy of a problem, with names; None if none is known here.

    `within` is the namespace that the user asked about, None for all namespaces. A command for an object in another
    namespace is for the owner of that object to run.
    """
    numbers, words = problem.numbers, PROBLEM_TEXTS[problem.trouble]
    remedy = words.remedy if all(numbers.get(each) for each in words.needs) else words.otherwise
    if remedy is DELETE_POD and _controller_kind(str(numbers.get("owner", ""))) not in REPLACING_CONTROLLER_KINDS:
        remedy = DELETE_COUNTED_POD
    namespace = problem.subject.key[0]
    if isinstance(remedy, SafeCommand) and within not in {None, namespace}:
        return WeighedChoice(f"ask whoever runs namespace {namespace}: {problem.subject} is theirs")
    return _fill_in(remedy, numbers)


def _controller_kind(owner: str) -> str:
    """Return the kind of a controller from a text of `dra.engine.diagnosis.claims.controller_name`: "job train".

    The text may begin with "another", as in "another job train".
    """
    return owner.removeprefix("another ").partition(" ")[0]


def advice_remedy(advice: SchedulingAdvice) -> Remedy | None:
    """Return the remedy that would help a waiting pod; None if none is known."""
    namespace, _, name = advice.claim.partition("/")
    facts = {"node": advice.node, "detail": advice.detail, "namespace": namespace, "name": name}
    return _fill_in(ADVICE_REMEDIES.get(advice.way), facts)


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
        key: without_commands(value) if isinstance(value, str) else value for key, value in problem.numbers.items()
    }
    pods = str(numbers.get("pods", "")).split()
    if len(pods) > 1:
        rest = int(numbers.get("count", 0)) - len(pods)
        numbers["pods"] = list_names([*pods, *[""] * max(rest, 0)])
    return singularize(PROBLEM_TEXTS[problem.trouble].text.format(**numbers))


def _fill_in(remedy: Remedy | None, facts: Mapping[str, str | int]) -> Remedy | None:
    """Return a remedy with its names filled in; names must not be able to add commands, nor to end a line."""
    if isinstance(remedy, WeighedChoice):
        said = {key: without_commands(" ".join(str(value).split())) for key, value in facts.items()}
        return WeighedChoice(singularize(remedy.text.format(**said)))
    if isinstance(remedy, SafeCommand):
        quoted = {key: " ".join(shlex.quote(word) for word in str(value).split()) for key, value in facts.items()}
        return SafeCommand(" ".join(remedy.command.format(**quoted).split()))
    return None


NOTHING_TO_DO: Final = "Nothing"
"""First word of a remedy where there is nothing to do."""


def _all_guidance() -> Iterator[tuple[StrEnum, Guidance]]:
    for meanings in (CODES, PROBLEM_GUIDANCE, RESERVATION_REASON_GUIDANCE, REJECTION_GUIDANCE, IMPAIRMENTS):
        yield from meanings.items()
    yield from CPU_FAILURE_GUIDANCE.items()


def reason_names() -> list[str]:
    """Return the names of all reasons."""
    return sorted({member.value for member, _ in _all_guidance()})


def find_guidance(word: str) -> tuple[str, Guidance] | None:
    """Return a reason with its guidance, regardless of upper and lower case; None for an unknown name."""
    return next(
        ((member.value, said) for member, said in _all_guidance() if member.value.lower() == word.lower()), None
    )


def without_code_marks(markdown: str) -> str:
    """Return a text without its backquotes."""
    return markdown.replace("`", "")


def guidance_remedy(trouble: ProblemCode) -> str:
    """Return the remedy for a problem that has no command; empty if there is nothing to do."""
    told = without_code_marks(PROBLEM_GUIDANCE[trouble].remedy)
    return "" if told.startswith(NOTHING_TO_DO) else told
