"""The decisions of a round of descheduling, summed up for people: who goes, and who stays for which reason."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from dra.api.descheduler.load_plugin_args import AnomalyCondition, LowNodeLoadArgs, RemovePodsUnderPressureArgs
from dra.api.descheduler.plugin_args import PluginArgs
from dra.engine.descheduling.plugin import Refusal
from dra.engine.descheduling.pods import DeschedulingPod
from dra.engine.descheduling.round import Decision, Profile, RoundResult
from dra.engine.descheduling.snapshot import Snapshot
from dra.model.meta import Key, Struct, Uid

_AS_IF: Final = (
    "a dry run remembers no earlier round: {plugin} is asked as if its {field} were met, and pods that were moved a "
    "short while ago are not known"
)


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


def as_if_remembered(profiles: Iterable[Profile]) -> tuple[tuple[Profile, ...], tuple[str, ...]]:
    """Return profiles whose plugins act in a first round, and what they would wait for otherwise.

    A dry run remembers no earlier round, and would say of a plugin that counts reports that it does nothing.
    """
    notes: dict[str, None] = {}

    def remember(plugin: Any, args: PluginArgs) -> tuple[Any, PluginArgs]:  # noqa: ANN401 - any plugin
        if isinstance(args, LowNodeLoadArgs):
            notes[_AS_IF.format(plugin=plugin.name, field="anomalyCondition")] = None
            at_once = AnomalyCondition(consecutive_abnormalities=1)
            pools = tuple(pool.model_copy(update={"anomaly_condition": None}) for pool in args.node_pools)
            return plugin, args.model_copy(update={"anomaly_condition": at_once, "node_pools": pools})
        if isinstance(args, RemovePodsUnderPressureArgs):
            notes[_AS_IF.format(plugin=plugin.name, field="consecutiveReports")] = None
            return plugin, args.model_copy(update={"consecutive_reports": 1})
        return plugin, args

    remembered = tuple(
        replace(
            profile,
            deschedule=tuple(remember(plugin, args) for plugin, args in profile.deschedule),
            balance=tuple(remember(plugin, args) for plugin, args in profile.balance),
        )
        for profile in profiles
    )
    return remembered, tuple(notes)


def decisions_on(result: RoundResult, pod: Uid) -> tuple[Decision, ...]:
    """Return the decisions on one pod, in order."""
    return tuple(decision for decision in result.decisions if decision.pod.metadata.uid == pod)


def protections(profiles: Iterable[Profile], pod: DeschedulingPod, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield each profile that protects a pod, whichever plugin names it, and why."""
    for profile in profiles:
        if profile.nodes is not None and pod.spec.node_name not in profile.nodes:
            yield profile.name, f"node {pod.spec.node_name or '(none)'}: is not a node of the profile"
            continue
        for plugin, args in profile.filters:
            if text := plugin.filter(pod, snapshot, args):
                yield profile.name, text
                break


def candidates(decisions: Iterable[Decision]) -> int:
    """Return the number of pods that at least one plugin named."""
    return len({decision.pod.metadata.uid for decision in decisions})


def _bare_message(decision: Decision) -> str:
    return decision.verdict.message.removeprefix(f"pod {'/'.join(decision.pod.metadata.key)}: ")
