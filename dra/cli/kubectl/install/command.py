"""Implements the ``kubectl dra install`` command."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from dra.api.configuration import ControllerConfiguration, ControllerMode
from dra.api.rbac import NAMESPACE
from dra.cli import server_process
from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl import checklist, connection, printers
from dra.cli.kubectl.checklist import CheckResult, CheckState
from dra.cli.kubectl.connection import Connection, error_text, run
from dra.cli.kubectl.failures import FailedError
from dra.cli.kubectl.gate import opt_in
from dra.cli.kubectl.install import installed
from dra.cli.kubectl.install.installed import Installed
from dra.cli.kubectl.install.plan import PlannedAction, PlannedWrite, Planner
from dra.cli.kubectl.install.selection import CONTROLLER_CONFIG, Selection, SelectionError
from dra.cli.kubectl.preflight.command import find_obstacles
from dra.cli.kubectl.preflight.stock_controller import STOCK_CONTROLLER_CHECK
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.printers import OutputFormat, format_table, print_to_stderr
from dra.engine.messages.documentation import page_url
from dra.kube.errors import ApiError

_COLOURS: Final = {PlannedAction.CREATE: "green", PlannedAction.CHANGE: "yellow", PlannedAction.REFUSED: "red"}

DEPLOYMENT: Final = "dra-reserve-controller"
"""Deployment of the controller."""

DEFAULT_IMAGE: Final = "dra-reserve:0.1.0"
"""Image in the manifests of the package."""

_SCHEDULER: Final = "kube-scheduler must call the extender, and both need certificates: " + page_url(
    "how-to/scheduler-extender.md"
)
_LABEL: Final = "applies to the pods of namespaces with the label "

COMPONENT_NOTES: Final[Mapping[str, str]] = {
    "reservations": _SCHEDULER,
    "koordinator": f"{_LABEL}reserve.dra/koordinator=enabled",
    "gate": f"{_LABEL}{opt_in.GATE_LABEL}={opt_in.ENABLED}",
    "colocation": f"begins with the ConfigMap slo-controller-config: {page_url('how-to/colocation.md')}",
}
"""Component → what remains to be done after the installation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """The checks of a cluster, and the planned write of each object."""

    checks: tuple[CheckResult, ...]
    writes: tuple[PlannedWrite, ...]
    notes: tuple[str, ...]

    @property
    def obstacles(self) -> list[str]:
        """The reasons why nothing can be installed."""
        refused = sum(write.action is PlannedAction.REFUSED for write in self.writes)
        missing = [
            f"check {check.check}: {check.state.value}" for check in self.checks if check.state is CheckState.MISSING
        ]
        return missing + ([f"{refused} objects refused"] if refused else [])

    @property
    def changes_anything(self) -> bool:
        """Whether an object would be created or changed."""
        return any(write.action in {PlannedAction.CREATE, PlannedAction.CHANGE} for write in self.writes)


def run_install(  # noqa: PLR0913 - one for each option
    *,
    cluster_flags: ClusterFlags,
    output: PrintOptions,
    mode: str,
    optional: str,
    gated: Sequence[str],
    image: str | None,
    config: Path | None,
    dry_run: bool,
    yes: bool,
    force_conflicts: bool,
) -> None:
    """Run ``kubectl dra install``; the declaration describes the options."""
    files = {CONTROLLER_CONFIG: config.read_text(encoding="utf-8")} if config is not None else {}
    chosen = [*optional.split(","), *(["gate"] if gated else [])]
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in chosen))))
    selection = Selection(mode=ControllerMode(mode), optional=names, image=image, files=files)
    try:
        selection.check()
    except SelectionError as error:
        raise click.UsageError(str(error)) from error

    async def work(connection: Connection) -> None:
        planner, plan = await _plan(connection, selection, gated, force_conflicts=force_conflicts)
        click.echo(_format_plan(plan, output))
        if plan.obstacles:
            print_to_stderr(f"error: {'; '.join(plan.obstacles)}; nothing was changed")
            raise SystemExit(1)
        if dry_run or not plan.changes_anything:
            return
        if not yes:
            _confirm()
        await _write(planner, plan)
        _print_next_steps(selection)

    run(cluster_flags, work)


def is_interactive() -> bool:
    """Report whether a user can answer questions."""
    return sys.stdin.isatty()


def _confirm() -> None:
    """Ask whether the plan shall be carried out; end the command unless the user agrees."""
    if not is_interactive():
        raise FailedError("standard input is no terminal that could confirm the plan; nothing was changed. Use --yes")
    if not click.confirm("Install?", err=True):
        print_to_stderr("nothing was changed")
        raise SystemExit(1)


async def _plan(
    connected: Connection, selection: Selection, gated: Sequence[str], *, force_conflicts: bool
) -> tuple[Planner, InstallPlan]:
    replaces = selection.mode is ControllerMode.REPLACE
    checks = await find_obstacles(connected, replace=replaces)
    if replaces:
        checks = [_deferred(check) for check in checks]
    present = await installed.read(connected.client)
    wanted = replace(selection, files={**present.files, **selection.files}, image=selection.image or present.image)
    server_process.parse_configuration(
        wanted.controller_config(), ControllerConfiguration, name="configuration of the controller"
    )
    is_local_plane = await connection.companion_processes(connected.client) is not None
    planner = Planner(connected, force_conflicts=force_conflicts, local_plane=is_local_plane)
    writes = await planner.plan(wanted.objects())
    # The namespaces come last: the policy gates pods only once the controller that removes the gate is installed.
    for namespace in dict.fromkeys(gated):
        writes.append(await planner.plan_label(namespace, opt_in.GATE_LABEL, opt_in.ENABLED))
    notes = (*_notes(wanted, present, given=selection), *map(_gate_note, dict.fromkeys(gated)))
    return planner, InstallPlan(checks=tuple(checks), writes=tuple(writes), notes=notes)


def _deferred(check: CheckResult) -> CheckResult:
    """Return the check of the stock controller as a warning: until it is disabled, ours works as in mode alongside."""
    if check.check != STOCK_CONTROLLER_CHECK or check.state is not CheckState.MISSING:
        return check
    return replace(check, state=CheckState.WARNING)


def _notes(wanted: Selection, present: Installed, *, given: Selection) -> Iterator[str]:
    """Yield what a user must know or do in addition."""
    for name in present.config_maps:
        if not (given.files and name.startswith("controller-config")):
            yield f"configuration: kept from ConfigMap {name} -n {NAMESPACE}"
    if given.image is None and present.image is not None:
        yield f"image: kept as {present.image}; use --image for another one"
    elif wanted.image is None:
        yield f"image: {DEFAULT_IMAGE} is in no registry, so each node must have it; use --image to name yours"
    for name in wanted.optional:
        if name in COMPONENT_NOTES:
            yield f"{name}: {COMPONENT_NOTES[name]}"


def _gate_note(namespace: str) -> str:
    return f"--gate {namespace}: {opt_in.COSTS}. The way out: kubectl dra ungate --help"


def _format_plan(plan: InstallPlan, output: PrintOptions) -> str:
    if output.format is not OutputFormat.TABLE:
        return output.render(
            {
                "ready": not plan.obstacles,
                "checks": [check.to_data() for check in plan.checks],
                "objects": [write.to_data() for write in plan.writes],
                "notes": list(plan.notes),
            }
        )
    rows = [
        (write.name, printers.coloured(write.action.value, _COLOURS.get(write.action, "")), write.detail)
        for write in plan.writes
    ]
    counts = Counter(write.action for write in plan.writes)
    parts = [
        checklist.format_checklist(plan.checks, output),
        format_table(("OBJECT", "ACTION", "DETAIL"), rows, headers=output.headers),
        ", ".join(f"{counts[action]} {action.value}" for action in PlannedAction if counts[action]),
        "\n".join(plan.notes),
    ]
    return "\n\n".join(filter(None, parts))


async def _write(planner: Planner, plan: InstallPlan) -> None:
    """Write the objects; an error names how many are left, and the command can be run again."""
    done: list[PlannedWrite] = []

    def report(write: PlannedWrite) -> None:
        done.append(write)
        print_to_stderr(f"{write.name} {'created' if write.action is PlannedAction.CREATE else 'changed'}")

    try:
        await planner.write(plan.writes, report)
    except ApiError as error:
        raise FailedError(
            f"{error_text(error)}; {len(done)} objects were written, run the command again to write the others"
        ) from error


def _print_next_steps(selection: Selection) -> None:
    print_to_stderr(f"Wait for the controller: kubectl rollout status deployment {DEPLOYMENT} -n {NAMESPACE}")
    mode = " --mode replace" if selection.mode is ControllerMode.REPLACE else ""
    print_to_stderr(f"Then check the cluster: kubectl dra preflight{mode}")
