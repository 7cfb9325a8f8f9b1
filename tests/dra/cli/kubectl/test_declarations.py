"""Help and usage errors must not wait for the modules that do the work; option values are those of the enums."""

import inspect
import subprocess
import sys

import click
import pytest

from dra.api.configuration import ControllerMode
from dra.api.migration.model import MigrationMode
from dra.api.parameters.cpu_policies import CpuBindPolicy
from dra.cli.kubectl.apply import DryRunStrategy
from dra.cli.kubectl.main import COMMANDS, main
from dra.cli.kubectl.option_values import CONTROLLER_MODES, CPU_BIND_POLICIES, DRY_RUN_STRATEGIES, MIGRATION_MODES
from tests.violations import assert_none

HEAVY = ("aiohttp", "asyncio", "kubernetes", "pydantic", "ssl", "yaml", "dra.kube.client", "dra.engine.diagnosis")


HELPS = """
import contextlib, io, os, sys
from dra.cli.kubectl.main import main

for command in {commands!r}:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        main([*command.split(), "--help"], standalone_mode=False)
    heavy = [name for name in {heavy!r} if name in sys.modules]
    usage = stdout.getvalue().startswith("Usage: kubectl dra " + command)
    print(repr(command), *heavy if usage else ["no usage"], flush=True)
    os._exit(0)
"""
"""A program that prints each command, and which heavy modules its help has imported; each in a process of its own."""


def test_the_help_of_no_command_imports_what_reads_a_cluster():
    commands = ["", *sorted(COMMANDS)]
    code = HELPS.format(commands=commands, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert_none(set(lines) - {repr(command) for command in commands})
    assert len(lines) == len(commands)


@pytest.mark.parametrize(
    ("offered", "values"),
    [
        (CONTROLLER_MODES, ControllerMode),
        (MIGRATION_MODES, MigrationMode),
        (DRY_RUN_STRATEGIES, DryRunStrategy),
        (CPU_BIND_POLICIES, CpuBindPolicy),
    ],
    ids=["controller-modes", "migration-modes", "dry-run-strategies", "cpu-bind-policies"],
)
def test_option_values_are_those_of_the_enum(offered, values):
    assert sorted(offered) == sorted(each.value for each in values)


IMPLEMENTATIONS = {
    "get": "diagnosis.get:print_objects",
    "tree": "diagnosis.tree:print_trees",
    "usage": "diagnosis.usage:print_usage",
    "audit": "diagnosis.audit:print_audit",
    "ui": "ui:run_page",
    "simulate": "simulate.command:print_simulation",
    "apply": "apply:apply_manifests",
    "reserve": "reservations.reserve:create_reservation",
    "migrate": "migrate.command:run_migrations",
    "deschedule": "descheduling.command:run_round_dry",
    "release": "claim_commands:run_release",
    "wait": "waiting:run_wait",
    "preflight": "preflight.command:run_preflight",
    "install": "install.command:run_install",
    "verify": "verify.command:run_verify",
    "downgrade": "downgrade.command:run_downgrade",
    "adopt": "downgrade.adopt:print_adoption",
}


@pytest.mark.parametrize("name", sorted(IMPLEMENTATIONS))
def test_a_declaration_passes_what_its_implementation_takes(name, monkeypatch):
    module, _, function = IMPLEMENTATIONS[name].partition(":")
    path = f"dra.cli.kubectl.{module}.{function}"
    signature = inspect.signature(__import__(path.rpartition(".")[0], fromlist=[function]).__dict__[function])
    passed = []
    monkeypatch.setattr(path, lambda **options: passed.append(options))
    command = main.commands[name]
    arguments = [str(each.name) for each in command.params if isinstance(each, click.Argument) and each.required]
    needed = ["--filename=-"] if any("--filename" in each.opts for each in command.params) else []
    main.main([name, *needed, *arguments], standalone_mode=False)
    assert set(passed[0]) == set(signature.parameters)
