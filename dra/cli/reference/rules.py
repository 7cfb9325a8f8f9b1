"""docs/explanation/rules.md: the rules as diagrams, drawn from the tables that the program uses."""

import itertools
from typing import Final

from dra.cli.reference import markdown, svg_diagrams
from dra.engine.claims.consumers import Stage
from dra.engine.claims.rules import RULES
from dra.engine.diagnosis.cluster_state import AllocationHold
from dra.engine.reservations.phases import TERMINAL_PHASES, TRANSITIONS

_STAGE_TEXTS: Final = {
    Stage.GATED: "behind a scheduling gate",
    Stage.WAITING: "the scheduler may bind it at any moment",
    Stage.STARTING: "bound, no sandbox yet: its kubelet asks for its entry",
    Stage.STARTED: "bound, devices prepared: its kubelet asks no more",
    Stage.FINISHED: "ended, or gone before it was bound",
}


def page() -> str:
    """Return docs/explanation/rules.md as Markdown."""
    return markdown.page(
        "Rules in pictures",
        "What the rules say, in one sentence each, is in [KEP-notes.md](../../KEP-notes.md#the-rules).\n",
        "## How one claim is decided\n",
        "Every rule sees the claim with its pods, and what the rules before it want; the end of the chain is compared\n"
        "with what is there, and the difference is written. The order (`dra/engine/claims/rules.py`) is:\n",
        "![the rules, from top to bottom](rules-chain.svg)\n",
        "## The life of a pod, as the rules see it\n",
        "![the stages of a pod, from gated to finished](rules-pod.svg)\n",
        markdown.table(("stage", "means"), [(f"`{each.name.lower()}`", _STAGE_TEXTS[each]) for each in Stage]),
        "## What keeps an allocation\n",
        "`kubectl dra explain claim` names those that apply; without any of them the devices are given back.\n",
        markdown.table(("hold", "rule"), [(f"`{each.value}`", _HOLD_RULE_TEXTS[each]) for each in AllocationHold]),
        "## The life of a Reservation\n",
        "From `TRANSITIONS` of `dra/engine/reservations/phases.py`; what is not in it changes nothing.\n",
        "![the phases of a Reservation, from Pending to Succeeded or Failed](rules-reservation.svg)\n",
    )


_HOLD_RULE_TEXTS: Final = {
    AllocationHold.WORKLOAD: "2, 7: the workload that the claim is reserved for may still use it",
    AllocationHold.CONSUMING: "8: bound pods use it",
    AllocationHold.WAITING: "3, 8: listed pods may be bound any moment",
    AllocationHold.FOREIGN: "1: entries of others are never touched",
    AllocationHold.UNKNOWN: "12: listed pods of which nobody can tell whether they are there",
    AllocationHold.LOST_NODE: "12: pods vanished from a node that did not report in",
    AllocationHold.VANISHED: "12: pods vanished before anybody told that their containers had ended",
    AllocationHold.GROUP: "13: a PodGroup that is there has it",
    AllocationHold.RESERVATION: "a Reservation keeps it for its owners, until that is over",
    AllocationHold.FORMER: "7: an entry for an object of the same name before this one",
    AllocationHold.DOUBT: "12: nobody can tell whether the workload has the claim",
    AllocationHold.TIME: "8: a scheduling cycle may still bind a pod; it passes",
    AllocationHold.NOTHING: "8: an empty list of an allocation that nobody uses: legal, and no edge that frees it",
}


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
    names = [each.name.lower() for each in Stage]
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
