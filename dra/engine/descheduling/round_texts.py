"""The lines in which the log tells what a round has decided; the object comes first, as in all messages."""

from collections import Counter
from collections.abc import Iterator

from dra.engine.descheduling.round import Decision, RoundResult


def accepted_lines(result: RoundResult) -> Iterator[str]:
    """Yield a line for each pod that goes."""
    return (accepted_line(decision) for decision in result.decisions if decision.verdict.accepted)


def refused_lines(result: RoundResult) -> Iterator[str]:
    """Yield a line for each candidate that stays; it begins with the object that forbids the eviction."""
    return (
        f"{decision.verdict.message} (profile {decision.profile}, plugin {decision.plugin}: {decision.reason})"
        for decision in result.decisions
        if not decision.verdict.accepted
    )


def accepted_line(decision: Decision) -> str:
    """Return the line about a pod that goes."""
    target = f" to node {decision.verdict.node}" if decision.verdict.node else ""
    moves = f"leaves node {decision.node}{target}" if decision.node else "is removed"
    name = "/".join(decision.pod.metadata.key)
    return f"pod {name}: {moves}: {decision.reason} (profile {decision.profile}, plugin {decision.plugin})"


def summary_line(result: RoundResult) -> str:
    """Return how many candidates go, and why the others stay."""
    accepted = sum(decision.verdict.accepted for decision in result.decisions)
    refusals = Counter(str(decision.verdict.refusal) for decision in result.decisions if not decision.verdict.accepted)
    stay = ", ".join(f"{count} {refusal}" for refusal, count in sorted(refusals.items()))
    return f"{accepted} of {len(result.decisions)} candidates go" + (f"; the others stay: {stay}" if stay else "")
