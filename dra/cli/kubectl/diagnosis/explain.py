"""Declares ``kubectl dra explain`` and its alias ``why``; the work is in `explanation`, imported on use."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from dra.cli.kubectl.print_flags import PrintOptions, print_options, verbose_option
from dra.cli.kubectl.resource_args import KindParam, NameParam, parse_resource_args, parse_workload_args
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource, source_options

EXPLAINED_KINDS: Final = ("claim", "pod", "node", "device", "reservation", "migration", "reason", "rule")


def _reason_names() -> list[str]:
    from dra.cli.kubectl.diagnosis.reason_guidance import reason_names  # noqa: PLC0415 - help needs no engine

    return reason_names()


def _rule_numbers() -> list[str]:
    from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS  # noqa: PLC0415 - as above

    return [str(number) for number in RULE_DESCRIPTIONS]


FIXED_NAMES: Final = {"reason": _reason_names, "rule": _rule_numbers}


@click.command()
@click.argument("kind", metavar="KIND", type=KindParam(EXPLAINED_KINDS, fixed_names=FIXED_NAMES, workloads=True))
@click.argument("name", required=False, type=NameParam(fixed_names=FIXED_NAMES, workloads=True))
@source_options
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With pod: configuration of the descheduler, for the question why the pod is not moved. Default: that of the "
    "installed descheduler.",
)
@print_options
@verbose_option
def explain(
    *,
    kind: str,
    name: str | None,
    source: SnapshotSource,
    config: Path | None,
    output: PrintOptions,
    verbose: bool,
) -> None:
    """Explain why a claim, pod, node or device is held, by which rule, and what would release it.

    Name the object as KIND NAME or KIND/NAME. A workload of any kind (job/train, deployments.apps/web) is explained by
    its claims and the reasons of its pods, with equal reasons counted. For a pod, the command also says why the
    descheduler moved it, or what keeps it where it is. The command changes nothing and works on any
    cluster, with or without the dra-reserve controller. For a reason of an Event, a condition or a metric (reason
    WorkloadNotFound), and for a rule (rule release), it prints the meaning without reading a cluster. Exit code: 0 no
    problem, 1 a problem was found and the output says what to do, 2 error.
    """
    output = replace(output, verbose=verbose)
    workload = parse_workload_args(kind, name)
    if workload is not None:
        from dra.cli.kubectl.diagnosis.explanation import print_workload  # noqa: PLC0415 - help needs no engine

        print_workload(source, *workload, output)
        return
    kind, name = parse_resource_args(kind, name, among=EXPLAINED_KINDS)
    assert name  # noqa: S101 - for mypy: it was asked for
    from dra.cli.kubectl.diagnosis.explanation import print_explanation  # noqa: PLC0415 - as above

    if config is not None and kind != "pod":
        raise click.UsageError("--config requires pod/NAME")
    print_explanation(source, kind, name, output, config=config)
