"""Options that kubectl's users expect of each command, with kubectl's names."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from dra.cli.kubectl.print_flags import LIST_FORMATS, OBJECT_FORMATS, OutputParam, PrintOptions
from dra.cli.kubectl.printers import OutputFormat

__all__ = [
    "ClusterFlags",
    "PrintOptions",
    "cluster_options",
    "filename_option",
    "list_print_options",
    "namespace_options",
    "print_options",
    "watch_option",
]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """The flags that select the cluster."""

    kubeconfig: str | None = None
    context: str | None = None


filename_option = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="FILE",
    help="Manifests, YAML or JSON; - is stdin, a folder stands for all in it. May be given again.",
)
"""``-f``; the command gets as `paths` what `dra.cli.kubectl.manifests.load_documents` reads."""


watch_option = click.option("-w", "--watch", is_flag=True, help="Go on, and print what changes, until Ctrl-C.")
"""``-w``; the command gets it as `watch`."""


def cluster_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``; the command gets both as `place`."""

    @click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False),
        help="Else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
    )
    @click.option("--context", help="Context of the kubeconfig.")
    @functools.wraps(command)
    def wrapped(*, kubeconfig: str | None, context: str | None, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(place=ClusterFlags(kubeconfig=kubeconfig, context=context), **rest)

    return wrapped  # type: ignore[return-value] # options were taken from it, and one parameter added


def print_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers`` with the formats of one object; the command gets `style`."""
    return _add_print_options(command, OBJECT_FORMATS)


def list_print_options(command: Command) -> Command:
    """Add ``-o`` and ``--no-headers`` with the formats of a list; the command gets `style`."""
    return _add_print_options(command, LIST_FORMATS)


def _add_print_options(command: Command, formats: Sequence[OutputFormat]) -> Command:
    @click.option(
        "-o",
        "--output",
        type=OutputParam(formats),
        default=OutputFormat.TABLE.value,
        show_default=True,
        help="How the answer is written.",
    )
    @click.option("--no-headers", is_flag=True, help="A table without its first line.")
    @functools.wraps(command)
    def wrapped(*, output: PrintOptions, no_headers: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(style=replace(output, headers=not no_headers), **rest)

    return wrapped  # type: ignore[return-value] # as above


def namespace_options(command: Command) -> Command:
    """Add ``-n`` and ``-A``; the command gets `namespace`, None for all namespaces, which is the default."""

    @click.option("-n", "--namespace", metavar="NAMESPACE", help="Only this namespace.")
    @click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces, which is the default.")
    @functools.wraps(command)
    def wrapped(*, namespace: str | None, all_namespaces: bool, **rest: Any) -> Any:  # noqa: ANN401 - the command's
        return command(namespace=None if all_namespaces else namespace, **rest)

    return wrapped  # type: ignore[return-value] # as above
