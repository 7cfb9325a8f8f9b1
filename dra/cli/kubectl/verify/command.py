"""Implements ``kubectl dra verify``."""

import importlib.metadata
from pathlib import Path
from typing import Any, Final

import click

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.connection import Connection, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.printers import OutputFormat, format_structured, print_to_stderr
from dra.cli.kubectl.verify import cluster_facts, trial
from dra.cli.kubectl.verify.public_facts import OTHER, version_text
from dra.cli.kubectl.verify.trial import Step, TrialOptions, TrialResult
from dra.engine.claims.reasons import list_names
from dra.kube.clock import SYSTEM
from dra.kube.errors import ApiError
from dra.kube.resources import DEVICE_CLASSES
from dra.model.meta import PartialObjectMetadata

REPORT_FORMAT: Final = "verification of dra-reserve, format 1"
"""First line of a report: the number rises when a field changes its meaning."""

STANDARD_OUTPUT: Final = Path("-")


def run_verify(
    *, cluster_flags: ClusterFlags, device_class: str | None, image: str, timeout: float, report: Path | None
) -> None:
    """Run ``kubectl dra verify``; the declaration describes the options."""

    async def work(connection: Connection) -> TrialResult:
        facts = await cluster_facts.read_facts(connection) if report is not None else {}
        options = TrialOptions(
            device_class=device_class or await _only_class(connection),
            image=image,
            timeout=timeout,
            own_user=not await cluster_facts.is_openshift(connection.client),
        )
        return await run_reported_trial(connection, options, facts=facts, report=report)

    result = run(cluster_flags, work)
    if result.missing is not None:
        reason = f": {result.waits_for}" if result.waits_for else ""
        print_to_stderr(f"not within {timeout:.0f} s: {result.missing.value}{reason}. See: kubectl dra audit")
        raise SystemExit(1)
    print_to_stderr("The installation works: one pod got a device, and the device is free again.")


async def run_reported_trial(
    connection: Connection, options: TrialOptions, *, facts: dict[str, Any], report: Path | None
) -> TrialResult:
    """Run the trial and write the report, also of a trial that the API server refuses; raise ApiError."""
    try:
        result = await trial.run_trial(connection, options, report=_print_step)
    except ApiError as error:
        if report is not None:
            _write(report, format_structured(report_data(facts, TrialResult(refused=error.status)), OutputFormat.YAML))
        raise
    if report is not None:
        _write(report, format_structured(report_data(facts, result), OutputFormat.YAML))
    return result


def report_data(facts: dict[str, Any], result: TrialResult) -> dict[str, Any]:
    """Return the report: the facts of the cluster, and what the trial has shown."""
    return {
        "report": REPORT_FORMAT,
        "date": f"{SYSTEM.wall():%Y-%m-%d}",
        "client": _client_version(),
        **facts,
        "trial": {
            "passed": result.missing is None,
            "seconds": {step.value: round(result.seconds[step], 1) for step in Step if step in result.seconds},
            **({"missing": result.missing.value} if result.missing is not None and result.refused is None else {}),
            **({"refused": result.refused} if result.refused is not None else {}),
            **({"waitsFor": result.waits_for} if result.missing is not None and result.waits_for else {}),
        },
    }


def _client_version() -> str:
    try:
        return version_text(importlib.metadata.version("dra-reserve"))
    except importlib.metadata.PackageNotFoundError:  # run from a tree that is not installed
        return OTHER


def _print_step(step: Step, seconds: float) -> None:
    print_to_stderr(f"{seconds:5.1f} s  {step.value}")


def _write(path: Path, text: str) -> None:
    if path == STANDARD_OUTPUT:
        click.echo(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise FailedError(f"file {path}: {error}; the report was not written") from error
    print_to_stderr(f"The report is in {path}. Read it before you send it; it names no namespace, node, host or image.")


async def _only_class(connection: Connection) -> str:
    """Return the DeviceClass of the cluster; raise FailedError if there is none, or a choice."""
    pages = connection.client.list_pages(DEVICE_CLASSES, PartialObjectMetadata)
    names = [device_class.metadata.name async for page in pages for device_class in page.items]
    if len(names) == 1:
        return names[0]
    there = f"there are {len(names)} DeviceClasses ({list_names(names)})" if names else "there is no DeviceClass"
    raise FailedError(f"{there}: name one whose devices are free with --class. See: kubectl get deviceclasses")
