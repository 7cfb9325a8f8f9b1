"""Texts for the problems of batch resources and their configuration."""

from collections.abc import Mapping
from typing import Final

from dra.cli.kubectl.diagnosis.problem_wording import ProblemText
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.remedies import WeighedChoice

COLOCATION_PROBLEM_TEXTS: Final[Mapping[ProblemCode, ProblemText]] = {
    ProblemCode.NOT_SAMPLED: ProblemText(
        "{state}: batch resources are computed as 0, and only what {held} batch pods there hold stays offered",
        WeighedChoice(
            "check the kubelet plugin of node {name}: it must run there with --colocation. To look for it: kubectl get "
            "pods -n dra-reserve-nodes -o wide --field-selector spec.nodeName={name}"
        ),
    ),
    ProblemCode.BATCH_BELOW_HELD: ProblemText(
        "offers less than batch pods there hold ({amounts}): a kubelet that restarts fails those that do not fit "
        "(OutOfkubernetes.io/batch-…)",
        WeighedChoice(
            "check whether the dra-reserve controller runs with colocation: true, which offers at least what is held; "
            "another manager of batch resources, such as koord-manager, may write the same Node"
        ),
    ),
    ProblemCode.BATCH_REFUSED: ProblemText(
        "was refused by the kubelet of node {node} ({message}): the node offered less than when the pod was bound",
        WeighedChoice(
            "nothing if its controller, {owner}, has created a new pod; the refused one only remains to be read. To "
            "see what node {node} offers: kubectl dra explain node {node}"
        ),
        needs=("owner",),
        otherwise=WeighedChoice(
            "create the pod again: it has no controller. To see what node {node} offers: kubectl dra explain node "
            "{node}"
        ),
    ),
    ProblemCode.BATCH_FRACTION: ProblemText(
        "container {container} requests {amount} of kubernetes.io/batch-cpu, which counts milli-CPUs: it gets as "
        "little as the kernel allows",
        WeighedChoice(
            "write {meant} for {amount} in the pod template, in requests and limits, and create the pod again"
        ),
    ),
    ProblemCode.COLOCATION_CONFIG_INVALID: ProblemText(
        "{error}",
        WeighedChoice(
            "correct key {part}: kubectl edit configmap {name} -n {namespace}. Processes keep the last valid content "
            "of the key; one that starts now takes the key as absent"
        ),
        needs=("part",),
        otherwise=WeighedChoice("correct it, which has no effect until then: kubectl edit node {name}"),
    ),
    ProblemCode.NODE_CONFIGS_OVERLAP: ProblemText(
        "{configs} select the same nodes ({count}: {nodes}): the first one counts, the others have no effect there",
        WeighedChoice(
            "correct the selectors, or the order, of {configs} in key {part} if another one is meant to count: kubectl "
            "edit configmap {name} -n {namespace}"
        ),
    ),
}
