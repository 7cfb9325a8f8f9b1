"""Describes a migration for ``kubectl dra explain``, and the migrations from and to a pod."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from dra.api.migration.model import MalformedPodMigrationJobError, MigrationPhase, parse_pod_migration_job
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.migrations import migration_list, migration_texts
from dra.cli.kubectl.migrations.migration_texts import NOT_INSTALLED
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, did_you_mean, remedy_data, wrap_lines
from dra.engine.diagnosis import migrations as explaining
from dra.engine.diagnosis.migrations import MigrationDiagnosis, MigrationStep
from dra.engine.diagnosis.problem_codes import ProblemSeverity
from dra.engine.diagnosis.problems import Problem
from dra.engine.diagnosis.snapshot import Snapshot
from dra.kube.resources import POD_MIGRATION_JOBS
from dra.model.meta import Key

DATA_KEY: Final = "migrations"


def print_migration(snapshot: Snapshot, name: str, output: PrintOptions, *, now: datetime) -> None:
    """Print the description of a migration; exit with code 1 if it has failed or has a problem."""
    facts, problems = _diagnose(snapshot, name)
    if output.format is OutputFormat.TABLE:
        click.echo("\n".join(wrap_lines(_lines(snapshot, facts, problems, now=now, verbose=output.verbose))))
    else:
        output.print(migration_data(facts, problems))
    failed = facts.step is MigrationStep.ENDED and facts.phase != MigrationPhase.SUCCEEDED
    if failed or any(problem.severity is not ProblemSeverity.INFO for problem in problems):
        raise SystemExit(1)


def migration_lines(snapshot: Snapshot, name: str, *, now: datetime) -> Iterator[str]:
    """Yield the description of a migration by name; raise FailedError if it is unknown or unreadable."""
    yield from _lines(snapshot, *_diagnose(snapshot, name), now=now, verbose=True)


def _diagnose(snapshot: Snapshot, name: str) -> tuple[MigrationDiagnosis, tuple[Problem, ...]]:
    if snapshot.migrations is None:
        raise FailedError(NOT_INSTALLED)
    unread = next((gap.why for gap in snapshot.gaps if gap.resource == POD_MIGRATION_JOBS.label), "")
    if unread:
        raise FailedError(f"migration {name}: {unread}")
    job_object = next((migration for migration in snapshot.migrations if migration.metadata.name == name), None)
    if job_object is None:
        known = (migration.metadata.name for migration in snapshot.migrations)
        raise FailedError(f"migration {name}: not found{did_you_mean(name, known)}. See: kubectl dra migrations")
    try:
        job = parse_pod_migration_job(job_object.content)
    except MalformedPodMigrationJobError as error:
        raise FailedError(f"{error}. Correct it: kubectl edit podmigrationjob {name}") from error
    facts = explaining.explain(job, from_node=migration_list.pod_nodes(snapshot).get(explaining.pod_key(job), ""))
    pods = {pod.metadata.key: pod for pod in snapshot.pods}
    problems = explaining.problems([job], descheduler=snapshot.descheduler, pods=pods, budgets=snapshot.budgets)
    return facts, tuple(problems)


def _lines(
    snapshot: Snapshot, facts: MigrationDiagnosis, problems: tuple[Problem, ...], *, now: datetime, verbose: bool
) -> Iterator[str]:
    yield from migration_texts.describe_migration(facts, now=now)
    yield from describer.problem_lines(problems, within=None)
    if not problems:
        yield from migration_texts.next_lines(facts)
    yield from describer.unread_lines(snapshot, verbose=verbose)
    yield f"  process   {descheduler_text(snapshot)}"


def descheduler_text(snapshot: Snapshot) -> str:
    """Return the state of the descheduler, as its lease shows it."""
    return describer.lease_text(snapshot.descheduler, "descheduler")


def migration_data(facts: MigrationDiagnosis, problems: tuple[Problem, ...] = ()) -> dict[str, Any]:
    """Return a migration as data for JSON and YAML, with texts and commands beside the facts."""
    content: dict[str, Any] = {"kind": "PodMigrationJob", **msgspec.to_builtins(facts)}
    content["pod"] = "/".join(facts.pod)
    content["newPod"] = "/".join(facts.new_pod) if facts.new_pod is not None else ""
    content["text"] = migration_texts.step_text(facts)
    content["problems"] = [describer.problem_data(problem, within=None) for problem in problems]
    advised = remedy_data(migration_texts.next_step(facts))
    content["next"] = advised.get("command", "")
    content["decision"] = advised.get("decision", "")
    return content


def describe_pod_migrations(
    snapshot: Snapshot, key: Key, uid: str, *, now: datetime
) -> tuple[list[str], dict[str, Any]]:
    """Return the unfinished job of a pod, and the job that brought the pod to its node, as lines and as data."""
    jobs = tuple(explaining.parse_jobs(snapshot.migrations or ()))
    lines, content = [], []
    if (job := explaining.job_of_pod(jobs, key, uid)) is not None:
        facts = explaining.explain(job)
        lines.append(f"  migration {facts.name}: {migration_texts.step_text(facts)}")
        if text := migration_texts.cause_text(facts):
            lines.append(f"  why       {text}")
        lines.append(f"  next      kubectl dra explain migration {facts.name}")
        content.append(migration_data(facts))
    if (made := explaining.job_that_made(jobs, key)) is not None:
        facts = explaining.explain(made)
        age = migration_texts.age_text(made.metadata.creation_timestamp, now=now)
        lines.append(f"  moved     by migration {facts.name}, {age} ago: it replaces pod {'/'.join(facts.pod)}")
        if text := migration_texts.cause_text(facts):
            lines.append(f"  why       {text}")
        content.append(migration_data(facts))
    return lines, {DATA_KEY: content} if content else {}
