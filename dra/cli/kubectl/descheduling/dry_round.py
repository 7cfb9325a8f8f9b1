"""Runs one round of descheduling on a snapshot, with the code of the descheduler, and changes nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from dra.cli.kubectl.descheduling.configuration_reader import AssumedConfiguration
from dra.cli.kubectl.descheduling.round_table import RoundReport
from dra.engine.descheduling.profiles import Descheduling
from dra.engine.descheduling.round import run_round
from dra.engine.descheduling.snapshot import Snapshot
from dra.engine.diagnosis import descheduling as summing_up
from dra.engine.diagnosis.descheduling_snapshot import DeschedulingSnapshot, cluster_objects, missing_facts
from dra.engine.messages.documentation import page_url

NO_PROFILES: Final = (
    "the configuration has no profiles, so there is no round to run: give one with profiles, -f FILE. "
    f"See {page_url('how-to/descheduling.md')}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """The rounds of a configuration, and the notes about it."""

    descheduling: Descheduling
    text: str
    """Whose configuration it is."""
    faults: tuple[str, ...] = ()
    """Plugins of users that could not be loaded."""


def plan_round(assumed: AssumedConfiguration) -> RoundPlan | None:
    """Return the rounds of a configuration; None if it has no profiles."""
    rounds = assumed.file.descheduling
    return None if rounds is None else RoundPlan(descheduling=rounds, text=assumed.text, faults=assumed.faults)


def run_dry_round(
    plan: RoundPlan, snapshot: DeschedulingSnapshot, *, now: datetime, bundled: bool
) -> tuple[RoundReport, Snapshot]:
    """Run one round; return the report, and the cluster as it would be afterwards."""
    objects = cluster_objects(snapshot)
    cluster = Snapshot(objects, now=now.timestamp())
    rounds = plan.descheduling
    profiles, remembered = summing_up.as_if_remembered(rounds.profiles_on(objects.nodes))
    result = run_round(cluster, profiles, limits=rounds.limits)
    gaps = (*snapshot.gaps, *(snapshot.descheduling.gaps if snapshot.descheduling is not None else ()))
    report = RoundReport(
        result=result,
        profiles=profiles,
        configuration=plan.text,
        warnings=(*rounds.warnings, *plan.faults),
        unknown=(
            *(f"not read: {gap.resource}: {gap.why}" for gap in gaps),
            *missing_facts(snapshot, bundled=bundled),
            *remembered,
        ),
        incomplete=bool(gaps),
    )
    return report, cluster
