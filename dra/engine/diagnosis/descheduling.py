"""What a round of descheduling decided, summed up for people: who goes, and who stays for which reason."""

from collections.abc import Iterable, Iterator

from dra.engine.descheduling.plugin import Refusal
from dra.engine.descheduling.round import Decision, RoundResult
from dra.model.meta import Key, Struct, Uid


class StayingPods(Struct, frozen=True):
    """Candidates that stay for one reason."""

    refusal: Refusal
    profile: str
    plugin: str
    message: str
    """The reason without the name of the pod, if it starts with that."""
    pods: tuple[Key, ...]


def accepted(result: RoundResult) -> Iterator[Decision]:
    """Yield the decisions on pods that go, in order."""
    return (decision for decision in result.decisions if decision.verdict.accepted)


def staying(result: RoundResult) -> tuple[StayingPods, ...]:
    """Return the candidates that stay, those with one reason together, in order of the first of each.

    A pod that another plugin has moved, or that a later question accepted, does not stay.
    """
    going = {decision.pod.metadata.uid for decision in accepted(result)}
    groups: dict[tuple[Refusal, str, str, str], dict[Key, None]] = {}
    for decision in result.decisions:
        verdict = decision.verdict
        if verdict.accepted or decision.pod.metadata.uid in going:
            continue
        refusal = verdict.refusal or Refusal.PROTECTED
        group = (refusal, decision.profile, decision.plugin, _bare_message(decision))
        groups.setdefault(group, {})[decision.pod.metadata.key] = None
    return tuple(
        StayingPods(refusal=refusal, profile=profile, plugin=plugin, message=message, pods=tuple(pods))
        for (refusal, profile, plugin, message), pods in groups.items()
    )


def decisions_on(result: RoundResult, pod: Uid) -> tuple[Decision, ...]:
    """Return the decisions on one pod, in order."""
    return tuple(decision for decision in result.decisions if decision.pod.metadata.uid == pod)


def candidates(decisions: Iterable[Decision]) -> int:
    """Return the number of pods that at least one plugin named."""
    return len({decision.pod.metadata.uid for decision in decisions})


def _bare_message(decision: Decision) -> str:
    return decision.verdict.message.removeprefix(f"pod {'/'.join(decision.pod.metadata.key)}: ")
