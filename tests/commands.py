"""The commands that a message may name, and the environment in which people type commands."""

import os
import re
from typing import Final

import click

from dra.cli.kubectl.main import main as plugin
from dra.cli.main import main

_KUBECTL_VERB: Final = re.compile(
    r"annotate|api-resources|api-versions|apply|attach|autoscale|certificate|cluster-info|completion|config|cordon|cp"
    r"|create|debug|delete|describe|diff|drain|edit|events|exec|explain|expose|get|kustomize|label|logs|options|patch"
    r"|port-forward|proxy|replace|rollout|run|scale|set|taint|top|uncordon|version|wait"
)
"""kubectl's own; ``kubectl dra`` is ours."""

_COMMAND: Final = re.compile(r"\b(kubectl|dra-reserve|make) +([a-z][-a-z]*)(?: +([a-z][-a-z]*))?")
_OF_MAKE: Final = frozenset({"ARGS", "MAKELEVEL", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS"})

_OPTION_OF_OURS: Final = re.compile(r"this controller with (--[-a-z]+)")


def shell_environment() -> dict[str, str]:
    """Return the variables of this process without those that ``make test ARGS=…`` hands down to another make."""
    return {name: value for name, value in os.environ.items() if name not in _OF_MAKE}


def unknown_commands(text: str) -> list[str]:
    """Return the commands in a text that nobody can run."""
    unknown = []
    for program, verb, further in _COMMAND.findall(text):
        if program == "kubectl" and verb == "auth":
            known = further in {"can-i", "whoami", "reconcile"}
        elif program == "kubectl" and verb == "dra":
            known = not further or further in plugin.commands
        elif program == "kubectl":
            known = _KUBECTL_VERB.fullmatch(verb) is not None
        else:
            known = program == "dra-reserve" and verb in main.commands
        if not known:
            unknown.append(f"{program} {verb} {further}".strip())
    options = {option for parameter in _parameters() for option in parameter.opts}
    return unknown + [option for option in _OPTION_OF_OURS.findall(text) if option not in options]


def _parameters() -> list[click.Parameter]:
    return main.commands["controller"].params
