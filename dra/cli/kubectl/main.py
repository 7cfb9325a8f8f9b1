"""Implements ``kubectl-dra``, the plugin that kubectl runs for ``kubectl dra``.

As with kubectl: only data on stdout, messages on stderr, plain text when piped, NO_COLOR respected. Exit codes: 0 all
is well, 1 there is a problem (the output describes it), 2 an error or a wrong command line.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TextIO, cast

import click

from dra.cli.lazy_group import LazyGroup, LazySubcommands
from dra.model.terminal_escapes import escape_terminal


class PrintableStream:
    """A text stream that escapes control characters in its output; all other methods are the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text and return its length, as callers expect."""
        self._stream.write(escape_terminal(text, on_a_terminal=self._stream.isatty()))
        return len(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the stream has
        return getattr(self._stream, name)


@contextlib.contextmanager
def printable_streams() -> Iterator[None]:
    """Make standard output and standard error printable within the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", PrintableStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


EXAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "explain": (
        "kubectl dra explain claim train -n ml",
        "kubectl dra why pod/train-0 -n ml",
        "kubectl dra explain job/train -n ml",
        "kubectl dra explain device gpu.example.com/node-1/gpu-0",
        "kubectl dra explain node node-1",
        "kubectl dra explain migration web-1-0a1b2c3d",
        "kubectl dra explain claim train -n ml -o jsonpath='{.next}'",
        "kubectl dra explain reason WorkloadNotFound",
        "kubectl dra explain rule release",
    ),
    "get": (
        "kubectl dra get claims -A",
        "kubectl dra get claims -n ml -l team=vision -w",
        "kubectl dra get devices --field-selector state=Free",
        "kubectl dra get pods -n ml -o wide",
        "kubectl dra get reservations",
    ),
    "tree": ("kubectl dra tree -n ml", "kubectl dra tree -A -l team=vision", "kubectl dra tree nodes -o yaml"),
    "usage": (
        "kubectl dra usage --by workload",
        "kubectl dra usage --by node -o csv",
        "kubectl dra usage --by capacity",
        "kubectl dra usage --batch",
        "kubectl dra usage --idle --by workload --since 7d --prometheus http://prometheus.example.com:9090",
    ),
    "reservations": ("kubectl dra reservations", "kubectl dra reservations -o wide --sort-by .metadata.name"),
    "audit": (
        "kubectl dra audit",
        "kubectl dra audit --settle 5s --fail-on error",
        "kubectl dra audit -o json --from cluster.tgz",
    ),
    "ui": ("kubectl dra ui", "kubectl dra ui --port 8080 --no-browser", "kubectl dra ui --from cluster.tgz"),
    "simulate": (
        "kubectl dra simulate -f job.yaml -n ml",
        "kubectl dra simulate -f job.yaml --add-nodes gpu-node-1=3 --cordon gpu-node-2",
        "kubectl dra simulate -f job.yaml --drop-reservation ml/train",
        "kubectl dra simulate -f taint-rule.yaml",
    ),
    "apply": ("kubectl dra apply -f claim.yaml", "kubectl dra apply -f claim.yaml --dry-run=client -o yaml"),
    "colocation": (
        "kubectl dra colocation apply --dry-run",
        "kubectl dra colocation apply",
        "kubectl dra colocation why spark-exec-1 -n spark-demo",
        "kubectl dra colocation why -f job.yaml -n spark-demo",
    ),
    "reserve": (
        "kubectl dra reserve train --cpu 6 --memory 20Gi --owner jobs.batch/train --ttl 1h",
        "kubectl dra reserve web --cpu 2 -l app=web -n shop --dry-run=client -o yaml",
    ),
    "release": ("kubectl dra release claim train -n ml --dry-run", "kubectl dra release claim train -n ml"),
    "migrate": (
        "kubectl dra migrate pod/web-1 -n shop",
        "kubectl dra migrate node/node-1 --dry-run",
        "kubectl dra migrate node/node-1 --cordon --timeout 30m",
    ),
    "migrations": ("kubectl dra migrations", "kubectl dra migrations -o wide -w"),
    "deschedule": (
        "kubectl dra deschedule --dry-run",
        "kubectl dra deschedule --dry-run -f policy.yaml -o wide",
        "kubectl dra deschedule --dry-run -f policy.yaml --from cluster.tgz",
    ),
    "approve": ("kubectl dra approve web-1-0a1b2c3d", "kubectl dra approve --all --dry-run"),
    "reject": ("kubectl dra reject web-1-0a1b2c3d",),
    "wait": (
        "kubectl dra wait claim train -n ml --for=released --timeout=5m",
        "kubectl dra wait reservation/train --for=condition=Available --timeout=90s",
    ),
    "bundle": ("kubectl dra bundle --file cluster.tgz", "kubectl dra explain claim train -n ml --from cluster.tgz"),
    "preflight": (
        "kubectl dra preflight",
        "kubectl dra preflight --mode replace --probe",
        "kubectl dra preflight --missing-rights | kubectl apply -f -",
    ),
    "verify": (
        "kubectl dra verify --class gpu.example.com",
        "kubectl dra verify --class gpu.example.com --report report.yaml",
    ),
    "install": (
        "kubectl dra install --dry-run",
        "kubectl dra install --image registry.example.com/dra-reserve:0.1.0",
        "kubectl dra install --mode replace --with reservations,descheduler",
        "kubectl dra install --gate ml --gate vision --dry-run",
    ),
    "ungate": ("kubectl dra ungate ml --dry-run", "kubectl dra ungate ml vision"),
    "downgrade": ("kubectl dra downgrade", "kubectl dra downgrade --apply"),
    "uninstall": ("kubectl dra uninstall --dry-run", "kubectl dra uninstall"),
    "adopt": ("kubectl dra adopt",),
}


def examples_epilog(name: str) -> str:
    """Return the examples for the end of a command's help; a backspace keeps click from rewrapping the paragraph."""
    lines = EXAMPLES.get(name, ())
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines))) if lines else ""


COMMANDS: Final[LazySubcommands] = {
    "explain": (
        "dra.cli.kubectl.diagnosis.explain:explain",
        "Explain why a claim, pod, node or device is held, by which rule, and what would release it.",
    ),
    "why": (
        "dra.cli.kubectl.diagnosis.explain:explain",
        "Explain why a claim, pod, node or device is held, by which rule, and what would release it.",
    ),
    "audit": (
        "dra.cli.kubectl.declarations.inspection:audit",
        "Check a cluster for devices held twice, leaks, zombies and scheduling gates without a running controller.",
    ),
    "get": (
        "dra.cli.kubectl.declarations.inspection:get",
        "Display claims, devices, pods, nodes, Reservations or migrations, with who uses what.",
    ),
    "tree": (
        "dra.cli.kubectl.declarations.inspection:tree",
        "Display workloads as a tree with their claims, devices and pods.",
    ),
    "usage": (
        "dra.cli.kubectl.declarations.inspection:usage",
        "Display how many devices are held and how many are in use.",
    ),
    "ui": (
        "dra.cli.kubectl.declarations.inspection:ui",
        "Serve a live page about claims, devices and Reservations to a browser on this machine.",
    ),
    "simulate": (
        "dra.cli.kubectl.declarations.management:simulate",
        "Simulate scheduling: display nodes and devices for the pods of manifests, or why pods stay Pending.",
    ),
    "apply": (
        "dra.cli.kubectl.declarations.management:apply",
        "Apply manifests that use spec.reservedFor (KEP-5194) to any API server.",
    ),
    "colocation": (
        "dra.cli.kubectl.declarations.colocation:colocation",
        "Apply ClusterColocationProfiles to new pods, or explain which ones apply to a pod.",
    ),
    "reserve": (
        "dra.cli.kubectl.declarations.management:reserve",
        "Reserve CPUs, memory and other resources of a node for future pods.",
    ),
    "reservations": (
        "dra.cli.kubectl.declarations.inspection:reservations",
        "Display Reservations with their node, usage, owners and expiration.",
    ),
    "migrate": (
        "dra.cli.kubectl.declarations.management:migrate",
        "Migrate a pod, or all pods of a node, to other nodes without losing capacity.",
    ),
    "migrations": (
        "dra.cli.kubectl.declarations.inspection:migrations",
        "Display PodMigrationJobs with their pods, nodes and steps.",
    ),
    "deschedule": (
        "dra.cli.kubectl.declarations.descheduling:deschedule",
        "Display which pods a round of descheduling would move, by which plugin, why, and where each would fit.",
    ),
    "approve": (
        "dra.cli.kubectl.declarations.descheduling:approve",
        "Approve migrations that wait for a person, so that they begin.",
    ),
    "reject": (
        "dra.cli.kubectl.declarations.descheduling:reject",
        "Reject migrations that wait for a person; their pods stay where they are.",
    ),
    "release": (
        "dra.cli.kubectl.declarations.management:release",
        "Release the devices of a claim; you confirm that no pod uses the claim.",
    ),
    "wait": (
        "dra.cli.kubectl.declarations.management:wait",
        "Wait until a claim is released or allocated, or a Reservation is available or has ended.",
    ),
    "bundle": (
        "dra.cli.kubectl.snapshots.snapshot_source:bundle",
        "Write a redacted snapshot of the cluster to a file for offline diagnosis.",
    ),
    "preflight": (
        "dra.cli.kubectl.declarations.installation:preflight",
        "Check whether the cluster is ready for dra-reserve.",
    ),
    "verify": (
        "dra.cli.kubectl.declarations.installation:verify",
        "Verify an installation with one pod: it gets a device, and the device is freed.",
    ),
    "install": (
        "dra.cli.kubectl.declarations.installation:install",
        "Install dra-reserve, or upgrade or extend an installation, after showing a plan.",
    ),
    "ungate": (
        "dra.cli.kubectl.declarations.installation:ungate",
        "Remove the gate reserve.dra/claim from the pods of namespaces, also while no controller works.",
    ),
    "adopt": (
        "dra.cli.kubectl.declarations.installation:adopt",
        "Re-enable the controllers after a downgrade and verify them.",
    ),
    "downgrade": (
        "dra.cli.kubectl.declarations.installation:downgrade",
        "Downgrade to stock Kubernetes without losing devices or stopping pods.",
    ),
    "uninstall": (
        "dra.cli.kubectl.declarations.installation:uninstall",
        "Delete what was installed, after showing a plan; a downgrade comes first.",
    ),
}

SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Inspection commands": ("explain", "why", "get", "tree", "usage", "reservations", "migrations", "audit", "ui"),
    "Planning commands": ("simulate", "deschedule"),
    "Management commands": ("apply", "colocation", "reserve", "migrate", "approve", "reject", "release", "wait"),
    "Troubleshooting commands": ("ungate", "bundle"),
    "Installation commands": ("preflight", "install", "verify", "downgrade", "adopt", "uninstall"),
}
"""Sections of the list of commands, in the order in which a new user needs them."""

PROGRAM_NAME: Final = "kubectl dra"
"""Command as users type it, whatever the name of the file that kubectl runs."""

WATCHABLE_COMMANDS: Final = (
    "kubectl dra get claims (or another kind), kubectl dra reservations and kubectl dra migrations"
)
"""Commands that accept ``-w``."""


class _KubectlGroup(LazyGroup):
    lazy_subcommands = COMMANDS
    sections = SECTIONS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, with its examples; in its help, the flags of all commands come last."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            from dra.cli.kubectl.client_flags import CLIENT_PARAMETERS  # noqa: PLC0415 - the list of commands needs none

            command.params.sort(key=lambda param: param.name in CLIENT_PARAMETERS)
        if command is not None and not command.epilog:
            command.epilog = examples_epilog("explain" if cmd_name == "why" else cmd_name)
        return command

    def main(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - click's
        with printable_streams():
            return super().main(*arguments, **{**settings, "prog_name": PROGRAM_NAME})

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's
        """Run a command; ``-w`` on a command without it names the commands that have it."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            if error.option_name not in {"-w", "--watch"} or error.ctx is None:
                raise
            raise click.UsageError(
                f"{error.ctx.info_name} does not support --watch. Commands that do: {WATCHABLE_COMMANDS}",
                ctx=error.ctx,
            ) from error


@click.group(cls=_KubectlGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dra-reserve", prog_name=PROGRAM_NAME)
def main() -> None:
    """Inspect, check and manage device claims and Reservations."""


if __name__ == "__main__":
    main()
