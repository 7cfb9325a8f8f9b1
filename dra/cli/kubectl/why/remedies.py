"""The words for each kind of problem, and the next command: one that can be pasted and does it.

A command names what it is about by name and namespace; ``{pods}`` and the like stand for several. A problem without a
command is one that waiting ends, or that nobody can end from here; then the text says so.
"""

import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from dra.engine.explain.pods import Advice, Way
from dra.engine.explain.problems import Problem, Trouble
from dra.engine.grammar import agreeing
from dra.engine.reasons import named


class Words(NamedTuple):
    """What is told of a problem."""

    text: str
    command: str = ""


RELEASE: Final = "kubectl dra release claim {name} -n {namespace}"
DELETE_POD: Final = "kubectl delete pod -n {namespace} {name}"
DELETE_PODS: Final = "kubectl delete pod -n {namespace} --ignore-not-found {pods}"
ANNOTATE: Final = "kubectl annotate resourceclaim -n {namespace} {name} --overwrite "
FREE_FINALIZER: Final = (
    'kubectl patch resourceclaim -n {namespace} {name} --type=merge -p \'{{"metadata":{{"finalizers":null}}}}\''
)

WORDS: Final[Mapping[Trouble, Words]] = {
    Trouble.HELD_TWICE: Words(
        "device {device} is also allocated to claim {other}: end the pods of one of the two, and that claim",
        "kubectl delete -n {namespace} --wait=false {pods} resourceclaim/{name}",
    ),
    Trouble.ALLOCATION_LOST: Words(
        "is bound to node {node}, but claim {claim} has no allocation any more: its devices may be given away",
        DELETE_POD,
    ),
    Trouble.OFF_ALLOCATION: Words(
        "is bound to node {node}, which the allocation of claim {claim} excludes: it will not start", DELETE_POD
    ),
    Trouble.UNGUARDED: Words(
        "{count} pods use it without an entry, and nothing in the list stands for them: a scheduler may give its "
        "devices away. A controller lists them",
    ),
    Trouble.NOT_FREED: Words(
        "nothing keeps its devices any more and nobody gives them back: controller {presence} (lease {lease})", RELEASE
    ),
    Trouble.LEFT_OVER: Words(
        "has devices, an empty list and no pods: a pod that could not be bound left it so, and the next one that names "
        "the claim uses them. If none will come, give them back",
        RELEASE,
    ),
    Trouble.KEPT_BY_OTHERS: Words(
        "is kept by {entries} alone, listed by others; nobody here can tell whether they still use it. If not", RELEASE
    ),
    Trouble.NODE_LOST: Words(
        "is kept for pods that vanished from node {node} while it did not report in; if it is off for certain",
        "kubectl delete node {node}",
    ),
    Trouble.IN_DOUBT: Words("nobody can tell whether {workload} still has the claim; if nobody uses it", RELEASE),
    Trouble.RELEASE_WAITS: Words(
        "{workload} is over, but {count} unfinished pods reference the claim: {pods}", DELETE_PODS
    ),
    Trouble.DELETION_WAITS: Words("is being deleted and waits for {count} pods: {pods}", DELETE_PODS),
    Trouble.ZOMBIE_CLAIM: Words(
        "was made for {owner}, which needs it no more",
        "kubectl delete resourceclaim -n {namespace} {name} --wait=false",
    ),
    Trouble.FINALIZER_LEFT: Words(
        "is being deleted and has no allocation: only a finalizer that nobody takes off keeps it", FREE_FINALIZER
    ),
    Trouble.STALE_ENTRIES: Words(
        "lists {count} pods that have ended: {entries}; a controller takes them off, meanwhile they take room"
    ),
    Trouble.TOMBSTONES: Words("has {count} tombstones of pods that are gone; a controller takes them off"),
    Trouble.MARKS_LEFT: Words(
        "has notes about an allocation that is no more",
        "kubectl annotate resourceclaim -n {namespace} {name} reserve.dra/entered-allocation- "
        "reserve.dra/reserved-for-any-pod-",
    ),
    Trouble.IDLE: Words(
        "is reserved for {workload}, which has no pods now: that is what a reservation is for. To give it back, delete "
        "the workload, or let go of the claim",
    ),
    Trouble.MALFORMED: Words(
        "the workload reference is ignored: {error}", ANNOTATE + "reserve.dra/reserved-for={guess}"
    ),
    Trouble.WORKLOAD_NOT_FOUND: Words(
        "is to be reserved for {workload}, which does not exist", ANNOTATE + "reserve.dra/reserved-for={guess}"
    ),
    Trouble.WRONG_UID: Words(
        "is reserved for {workload} with uid {expected}, which is gone; the one there now has uid {actual}",
        ANNOTATE + "reserve.dra/reserved-for-uid={actual}",
    ),
    Trouble.KIND_UNKNOWN: Words(
        "is to be reserved for {workload}, but the API server has no resource {kind}",
        ANNOTATE + "reserve.dra/reserved-for={guess}",
    ),
    Trouble.FORCE_IGNORED: Words(
        "annotation reserve.dra/force-release is not the uid of this claim, so nothing is done",
        ANNOTATE + "reserve.dra/force-release={uid}",
    ),
    Trouble.FORCE_BLOCKED: Words(
        "is to be released by force, but {count} pods use it on nodes that are Ready: {pods}", DELETE_PODS
    ),
    Trouble.NODE_CORDONED: Words(
        "is allocated on {nodes}, where no new pod may go, and {pods} pods wait for it", "kubectl uncordon {nodes}"
    ),
    Trouble.STUCK: Words(
        "no pod can use its allocation ({cause}) and {pods} pods wait; a controller takes it back in a minute or so",
        RELEASE,
    ),
    Trouble.DEVICE_GONE: Words("device {device} is allocated, but no driver offers it any more"),
    Trouble.DEVICE_TAINTED: Words("device {device} has the taint {taint} by {origin}: pods that use it are evicted"),
    Trouble.LIST_FULL: Words(
        "{pods} pods wait: {listed} of 256 entries are taken, {finished} of them by pods that have finished",
        "kubectl delete pod -n {namespace} --field-selector status.phase=Succeeded",
    ),
    Trouble.TIMELESS: Words(
        "its allocation has no timestamp (Kubernetes before 1.36): a controller that starts anew may be in doubt"
    ),
    Trouble.NOT_STARTED: Words("is bound to node {node} and has no sandbox yet"),
    Trouble.NODE_NOT_READY: Words(
        "is bound to node {node}, which does not report in: it cannot start there, and elsewhere only as another pod",
        DELETE_POD,
    ),
    Trouble.UNLISTED: Words(
        "is bound to node {node} and not listed in claim {claim}: its kubelet refuses it. A controller lists it; "
        "without one, let its owner start it again",
        DELETE_POD,
    ),
    Trouble.GATED: Words(
        "stands behind the gate reserve.dra/claim, and no controller is known to run (lease {lease}) that would take "
        "it off; without one",
        'kubectl patch pod -n {namespace} {name} --type=merge -p \'{{"spec":{{"schedulingGates":null}}}}\'',
    ),
    Trouble.GATED_BY_OTHERS: Words("stands behind scheduling gates of others, which they take off: {gates}"),
    Trouble.CLAIM_MISSING: Words("names claim {claim}, which does not exist: create it, or correct the name"),
    Trouble.CLAIM_NOT_MADE: Words(
        "waits for a claim to be made from template {template}: no claim controller does it (kube-controller-manager, "
        "or ours in mode replace)"
    ),
    Trouble.TEMPLATE_MISSING: Words("waits for a claim from template {template}, which does not exist: create it"),
    Trouble.CLAIM_DELETING: Words("names claim {claim}, which is being deleted: no new pod can use it"),
    Trouble.UNSATISFIABLE: Words("claim {claim} cannot be satisfied anywhere: {error}"),
    Trouble.NOT_TRIED: Words(
        "{nodes} nodes could take it: scheduler {scheduler} has not bound it yet, or does not run",
    ),
    Trouble.UNSCHEDULABLE: Words("none of {nodes} nodes can take it"),
}

_WITHOUT_GUESS: Final = "kubectl annotate resourceclaim -n {namespace} {name} reserve.dra/reserved-for-"

WAYS: Final[Mapping[Way, str]] = {
    Way.UNCORDON: "kubectl uncordon {node}",
    Way.UNTAINT: "kubectl taint node {node} {detail}-",
    Way.LABEL: "kubectl label node {node} {detail} --overwrite",
    Way.WAIT: "kubectl dra wait claim {name} -n {namespace} --for=released",
}


def text(problem: Problem) -> str:
    """Return what is told of a problem, object first."""
    return f"{problem.subject}: {note(problem)}"


def note(problem: Problem) -> str:
    """Return the same without the object; a command has all the names, a text only some."""
    numbers = problem.numbers
    pods = str(numbers.get("pods", "")).split()
    if len(pods) > 1:
        rest = int(numbers.get("count", 0)) - len(pods)
        numbers["pods"] = named([*pods, *[""] * max(rest, 0)])
    return agreeing(WORDS[problem.trouble].text.format(**numbers))


def command(problem: Problem) -> str:
    """Return the next command; empty if there is none."""
    numbers = problem.numbers
    template = WORDS[problem.trouble].command
    if problem.trouble is Trouble.LIST_FULL and not numbers["finished"]:
        return ""  # they all use it: waiting helps, or mode replace
    if "{guess}" in template and not numbers.get("guess"):
        template = _WITHOUT_GUESS
    return _filled(template, numbers)


def advised(advice: Advice) -> str:
    """Return the command for an advice; empty if there is none."""
    template = WAYS.get(advice.way, "")
    namespace, _, name = advice.claim.partition("/")
    return _filled(template, {"node": advice.node, "detail": advice.detail, "namespace": namespace, "name": name})


def _filled(template: str, facts: Mapping[str, str | int]) -> str:
    """Fill names into a command; whoever made an object must not be able to write commands."""
    quoted = {key: " ".join(shlex.quote(word) for word in str(value).split()) for key, value in facts.items()}
    return " ".join(template.format(**quoted).split())
