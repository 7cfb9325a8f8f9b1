"""Runs the steps of a release, or prints them: ``make release``, ``make release --dry-run``.

``python -m release [STEP …]`` runs all steps that upload nothing, or the named ones. A step fails with its first
command that fails, and no later step runs.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from release.plan import PYTHON, Command, Step, describe, steps
from release.project import ROOT, read_project

BASE: Final = "python:3.13-slim-trixie"
NO_DIGEST: Final = "sha256:…"
"""Stands for the digest of the base in a plan that is only printed."""


class UsageError(RuntimeError):
    """The command line asks for something that must not be done."""


def chosen(plan: Sequence[Step], names: Sequence[str], *, publish: bool) -> tuple[Step, ...]:
    """Return the named steps in the order of the plan; without names, all that upload nothing.

    Raises UsageError for an unknown name, and for a step that uploads unless `publish` is true.
    """
    known = {step.name for step in plan}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"step {unknown[0]}: unknown; steps: {', '.join(step.name for step in plan)}")
    selected = tuple(step for step in plan if (step.name in names if names else not step.publishes))
    uploads = [step.name for step in selected if step.publishes]
    if uploads and not publish:
        raise UsageError(f"step {uploads[0]}: uploads, which the release workflow does; add --publish to do it here")
    return selected


def require_base(selected: Sequence[Step], base: str) -> None:
    """Raise UsageError if a step needs the digest of the base, and the base has none."""
    needing = [step.name for step in selected if any(base in word for command in step.commands for word in command)]
    if needing and "@sha256:" not in base:
        raise UsageError(
            f"step {needing[0]}: base image {base} has no digest; name one: make release BASE={base}@sha256:…; "
            f"its registry says which: docker buildx imagetools inspect {base}"
        )


def run(step: Step) -> int:
    """Run the commands of a step and return the exit code of the first one that fails, else 0."""
    for command in step.commands:
        try:
            code = subprocess.run(_runnable(command), cwd=ROOT, env=_environment(), check=False).returncode  # noqa: S603 - the plan's own
        except FileNotFoundError:
            sys.stderr.write(f"error: step {step.name}: needs {command[0]} on PATH\n")
            return 1
        if code:
            sys.stderr.write(f"error: step {step.name}: exit code {code}; nothing has been uploaded by this step\n")
            return code
    return 0


def _environment() -> dict[str, str]:
    """Return the environment without the variables of the make that runs this: ARGS are the steps, not make's."""
    return {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}


def _runnable(command: Command) -> Command:
    return (sys.executable, *command[1:]) if command[0] == PYTHON else command


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.strip()  # noqa: S603 - our own arguments


def main(arguments: Sequence[str]) -> int:
    """Print the plan, or run the chosen steps."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", metavar="STEP", nargs="*", help="steps to run; by default all that upload nothing")
    parser.add_argument("--dry-run", action="store_true", help="print all steps and run none")
    parser.add_argument("--publish", action="store_true", help="allow steps that upload")
    parser.add_argument("--base", default=BASE, help="base image with its digest")
    parser.add_argument("--into", default="dist", help="folder of the release; make dist empties dist")
    given = parser.parse_args(arguments)
    project = read_project()
    base = f"{given.base}@{NO_DIGEST}" if given.dry_run and "@" not in given.base else given.base
    plan = steps(
        project,
        base=base,
        commit=_git("rev-parse", "HEAD"),
        commit_time=_git("log", "-1", "--format=%ct"),
        into=given.into,
    )
    if given.dry_run:
        sys.stdout.write(f"release {project.version} of {project.source}, into {given.into}; nothing is run\n\n")
        sys.stdout.write("\n".join(describe(step) for step in plan))
        return 0
    try:
        selected = chosen(plan, given.names, publish=given.publish)
        require_base(selected, base)
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for step in selected:
        sys.stdout.write(f"== {step.name}: {step.purpose}\n")
        sys.stdout.flush()
        if code := run(step):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
