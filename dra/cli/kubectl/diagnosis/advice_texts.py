"""Remedies that would help a waiting pod, by what the scheduler's answer and the node lack."""

from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.problem_texts import fill_in
from dra.engine.diagnosis.pods import AdvisedAction, SchedulingAdvice
from dra.engine.messages.remedies import Remedy, SafeCommand, WeighedChoice

ADVICE_REMEDIES: Final[Mapping[AdvisedAction, Remedy]] = {
    AdvisedAction.UNCORDON: WeighedChoice(
        "node {node} could run the pod, but is cordoned: the administrator who cordoned it, usually to drain it, "
        "decides when it accepts pods again"
    ),
    AdvisedAction.UNTAINT: WeighedChoice(
        "node {node} could run the pod, but has the taint {detail}, which keeps pods away on purpose: if the pod may "
        "run there, add a toleration to its template"
    ),
    AdvisedAction.LABEL: WeighedChoice(
        "node {node} could run the pod, but has no label {detail}: correct the node selector in the pod's template, "
        "or ask a cluster administrator whether the node should have that label"
    ),
    AdvisedAction.TOLERATE: WeighedChoice(
        "node {node} has devices for the pod, but with the taint {detail} of a driver or a DeviceTaintRule: if the "
        "request may use tainted devices, add a toleration to the claim or its template"
    ),
    AdvisedAction.REPAIR: WeighedChoice(
        "devices of node {node} are held, and have the taint {detail} as well: waiting for the claims that hold them "
        "does not help. Repair the devices or have the taint taken off, or add nodes"
    ),
    AdvisedAction.ROOM: WeighedChoice(
        "claim {claim} is allocated on node {node}, which lacks room ({detail}): the pod runs there once other pods of "
        "the node have ended. An additional node cannot have the claim's devices; if the node is too small for the "
        "pod, release the claim once no pod uses it, or give the pod a claim of its own"
    ),
    AdvisedAction.BATCH: SafeCommand("kubectl dra explain node {node}"),
    AdvisedAction.WAIT: SafeCommand("kubectl dra wait claim {name} -n {namespace} --for=released"),
}


def advice_remedy(advice: SchedulingAdvice) -> Remedy | None:
    """Return the remedy that would help a waiting pod; None if none is known."""
    namespace, _, name = advice.claim.partition("/")
    facts = {
        "node": advice.node,
        "detail": advice.detail,
        "claim": advice.claim,
        "namespace": namespace,
        "name": name,
    }
    return fill_in(ADVICE_REMEDIES.get(advice.way), facts)
