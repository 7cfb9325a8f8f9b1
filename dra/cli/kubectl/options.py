"""The options that kubectl's users expect of each command, with kubectl's names."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from dra.cli.kubectl.output import Format

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which cluster is meant."""

    kubeconfig: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How the answer is written."""

    output: Format = Format.TABLE
    headers: bool = True


def place_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``; the command gets them as `place`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False),
        help="Else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
    )
    @click.option("--context", help="Context of the kubeconfig.")
    @functools.wraps(command)
    def wrapped(*, kubeconfig: str | None, context: str | None, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(place=Place(kubeconfig=kubeconfig, context=context), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def style_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers``; the command gets them as `style`."""

    @click.option(
        "-o",
        "--output",
        type=click.Choice([each.value for each in Format]),
        default=Format.TABLE.value,
        show_default=True,
        help="How the answer is written.",
    )
    @click.option("--no-headers", is_flag=True, help="A table without its first line.")
    @functools.wraps(command)
    def wrapped(*, output: str, no_headers: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(style=Style(output=Format(output), headers=not no_headers), **rest)

    return wrapped  # type: ignore[return-value] # as above


def namespace_options(command: Command) -> Command:
    """Add ``-n`` and ``-A``; the command gets `namespace`, None for all of them, which is the default."""

    @click.option("-n", "--namespace", metavar="NAMESPACE", help="Only this namespace.")
    @click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, which is the default.")
    @functools.wraps(command)
    def wrapped(*, namespace: str | None, all_namespaces: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(namespace=None if all_namespaces else namespace, **rest)

    return wrapped  # type: ignore[return-value] # as above
