"""The rules in diagrams (docs/explanation/rules.md) and words (KEP-notes.md), from the tables of the program."""

import itertools
from typing import Final

from dra.cli.reference import markdown, svg_diagrams
from dra.engine.claims.consumers import Stage
from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS
from dra.engine.claims.rules import RULES
from dra.engine.diagnosis.cluster_state import AllocationHold
from dra.engine.reservations.phases import TERMINAL_PHASES, TRANSITIONS

_STAGE_TEXTS: Final = {
    Stage.GATED: "behind a scheduling gate",
    Stage.WAITING: "not bound; a scheduler may bind the pod at any time",
    Stage.STARTING: "bound, without a sandbox: the kubelet requires the entry of the pod",
    Stage.STARTED: "bound, devices prepared: the kubelet no longer checks the entry",
    Stage.FINISHED: "finished, or deleted before it was bound",
}


def page() -> str:
    """Return docs/explanation/rules.md as Markdown."""
    return markdown.page(
        "Rules in pictures",
        "[KEP-notes.md](../../KEP-notes.md#the-rules) states each rule in one sentence, and so does\n"
        "`kubectl dra explain rule NAME`.\n",
        "## How one claim is decided\n",
        "Every rule reads the claim with its pods and the desired state of the preceding rules. The controller\n"
        "compares the result with the current state and writes the difference. The order\n"
        "(`dra/engine/claims/rules.py`) is:\n",
        "![the rules, from top to bottom](rules-chain.svg)\n",
        "## The life of a pod, as the rules see it\n",
        "![the stages of a pod, from gated to finished](rules-pod.svg)\n",
        markdown.table(("stage", "means"), [(f"`{stage.name.lower()}`", _STAGE_TEXTS[stage]) for stage in Stage]),
        "## What keeps an allocation\n",
        "`kubectl dra explain claim` lists the holds that apply. A claim without a hold is deallocated.\n",
        markdown.table(("hold", "rule"), [(f"`{hold.value}`", _HOLD_RULE_TEXTS[hold]) for hold in AllocationHold]),
        "## The life of a Reservation\n",
        "From `TRANSITIONS` of `dra/engine/reservations/phases.py`; any other event changes nothing.\n",
        "![the phases of a Reservation, from Pending to Succeeded or Failed](rules-reservation.svg)\n",
    )


_HOLD_RULE_TEXTS: Final = {
    AllocationHold.WORKLOAD: "Enter, Release: the workload that the claim is reserved for has not ended",
    AllocationHold.CONSUMING: "Deallocate: bound pods use the claim",
    AllocationHold.WAITING: "Pre-list, Deallocate: a scheduler may bind listed pods at any time",
    AllocationHold.FOREIGN: "List: entries of other clients are never removed",
    AllocationHold.UNKNOWN: "Doubt: it is unknown whether listed pods exist",
    AllocationHold.LOST_NODE: "Doubt: pods vanished from a node that does not report its status",
    AllocationHold.VANISHED: "Doubt: pods vanished before their containers were reported as ended",
    AllocationHold.GROUP: "Stock duties: an existing PodGroup uses the claim",
    AllocationHold.RESERVATION: "a Reservation keeps the claim for its owners until the Reservation ends",
    AllocationHold.FORMER: "Release: an entry of a previous object with the same name",
    AllocationHold.DOUBT: "Doubt: it is unknown whether the workload uses the claim",
    AllocationHold.TIME: "Deallocate: a scheduling cycle may still bind a pod; the hold expires",
    AllocationHold.NOTHING: "Deallocate: an empty list deallocates nothing; the removal of its last entry does",
}


BEGIN: Final = "<!-- rules -->\n"
END: Final = "<!-- /rules -->\n"


def updated_notes(text: str) -> str:
    """Return KEP-notes.md with its table of rules replaced."""
    rows = "".join(
        f"| {number} {rule.name} | {rule.sentence} | {rule.modules} |\n" for number, rule in RULE_DESCRIPTIONS.items()
    )
    table = f"| rule | in one sentence | module of `dra/engine` |\n|---|---|---|\n{rows}"
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def draw_rule_chain() -> str:
    """Return the diagram of the rules in their order."""
    return svg_diagrams.draw_chain(
        {
            rule.__name__.removesuffix("_rule"): (rule.__doc__ or "").partition("\n")[0].rstrip(".").replace("`", "")
            for rule in RULES
        }
    )


def draw_pod_stages() -> str:
    """Return the diagram of the stages of a pod."""
    names = [stage.name.lower() for stage in Stage]
    moves = dict.fromkeys(itertools.pairwise(names), "")
    moves |= {("started", "starting"): "sandbox lost", ("waiting", "finished"): "deleted"}
    return svg_diagrams.draw_states(names, moves, first=("gated", "waiting"), last=("finished",))


def draw_reservation_phases() -> str:
    """Return the diagram of the phases of a Reservation."""
    moves: dict[svg_diagrams.StateTransition, str] = {}
    for (before, trigger), outcome in sorted(TRANSITIONS.items(), key=str):
        if before is not outcome.phase:
            move = (before.value, outcome.phase.value)
            moves[move] = ", ".join(filter(None, (moves.get(move), trigger.value)))
    ends = sorted((phase.value for phase in TERMINAL_PHASES), reverse=True)
    return svg_diagrams.draw_states(("Pending", "Available", *ends), moves, first=("Pending",), last=ends)
