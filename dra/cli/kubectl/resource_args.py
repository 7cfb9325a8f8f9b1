"""Parses ``KIND NAME`` and ``KIND/NAME`` on a command line, with every alias that kubectl accepts for a kind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from dra.cli.cluster_flags import ClusterFlags
from dra.cli.kubectl.printers import did_you_mean
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.kube.resources import CLAIMS, NODES, POD_MIGRATION_JOBS, PODS, Resource
from dra.model.meta import PartialObjectMetadata

KIND_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "claim": ("claim", "claims", "resourceclaim", "resourceclaims"),
    "pod": ("pod", "pods", "po"),
    "node": ("node", "nodes", "no"),
    "device": ("device", "devices"),
    "reservation": ("reservation", "reservations", "rsv"),
    "migration": ("migration", "migrations", "podmigrationjob", "podmigrationjobs", "pmj"),
    "reason": ("reason", "reasons"),
    "rule": ("rule", "rules"),
}
"""Kind → the words that users type for it."""


class KindParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """The type of a command's first argument: a kind, or a kind and a name."""

    name = "KIND"

    def __init__(self, offered: Sequence[str]) -> None:
        """Create the type; shell completion offers the kinds of ``offered``."""
        self.offered = offered

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the kinds that begin with the incomplete word."""
        del ctx, param
        return [CompletionItem(each) for each in self.offered if each.startswith(incomplete)]


def parse_resource_args(
    kind: str, name: str | None, *, among: Sequence[str], named: bool = True
) -> tuple[str, str | None]:
    """Return the kind, one of ``among``, and the name: ``claim train`` and ``claim/train`` are the same."""
    if name is None:
        kind, _, name = kind.partition("/")
    short = kind.partition(".")[0].lower()
    found = next((each for each in among if short in KIND_ALIASES[each]), None)
    if found is None:
        typed = [each for known in among for each in KIND_ALIASES[known]]
        one = f"no {among[0]}: {among[0]} NAME, or {among[0]}/NAME"
        several = f"none of {', '.join(among)}"
        raise click.UsageError(f"{kind!r} is {one if len(among) == 1 else several}{did_you_mean(short, typed)}")
    if named and not name:
        raise click.UsageError(f"which {found}? {found} NAME, or {found}/NAME")
    return found, name or None


def parse_workload_args(words: str, name: str | None) -> tuple[str, str] | None:
    """Return the words for a kind and the name, if the words denote none of `KIND_ALIASES`; else None.

    The words are the user's, since only an API server knows all kinds: ``job train``, ``jobs.v1.batch/train``.
    """
    if name is None:
        words, _, name = words.partition("/")
    short = words.partition(".")[0].lower()
    known = any(short in aliases for aliases in KIND_ALIASES.values())
    return None if known or not words or not name else (words, name)


class NameParam(click.ParamType):  # type: ignore[type-arg] # as above
    """The type of a command's second argument, a name; shell completion offers the existing names."""

    name = "NAME"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the incomplete word."""
        del param
        short = str(ctx.params.get("kind") or ctx.params.get("what") or "").partition(".")[0].lower()
        found = next((each for each, typed in KIND_ALIASES.items() if short in typed), None)
        if found is None or ctx.params.get("bundle"):
            return []

        return [CompletionItem(each) for each in list_names(found, ctx.params) if each.startswith(incomplete)]


COMPLETION_TIMEOUT: Final = 2.0
"""Seconds until completion gives up; a shell that waits longer seems to hang."""

COMPLETED_RESOURCES: Final[Mapping[str, Resource]] = {
    "claim": CLAIMS,
    "pod": PODS,
    "node": NODES,
    "migration": POD_MIGRATION_JOBS,
}


def list_names(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a kind, in the namespace that the command line selects; never raise an error."""
    resource = COMPLETED_RESOURCES.get(kind)
    if resource is None:
        return []
    import asyncio  # noqa: PLC0415 - as below

    from dra.kube.errors import ApiError  # noqa: PLC0415 - help and usage errors need no connection

    cluster_flags = ClusterFlags(
        kubeconfig=options.get("kubeconfig"),
        context=options.get("context"),
        as_user=options.get("as_user"),
        as_groups=options.get("as_groups") or (),
    )
    try:
        namespace = (
            SnapshotSource(cluster_flags=cluster_flags, requested_namespace=options.get("namespace")).namespace
            if resource.namespaced
            else None
        )
        return asyncio.run(asyncio.wait_for(_list_names(cluster_flags, resource, namespace), COMPLETION_TIMEOUT))
    except (ApiError, click.ClickException, TimeoutError, OSError):
        return []


async def _list_names(cluster_flags: ClusterFlags, resource: Resource, namespace: str | None) -> list[str]:
    from dra.cli.kubectl.connection import connect  # noqa: PLC0415 - as above
    from dra.kube.client import Selection  # noqa: PLC0415 - as above

    found: list[str] = []
    async with connect(cluster_flags) as connection:
        pages = connection.client.list_pages(resource, PartialObjectMetadata, selection=Selection(namespace=namespace))
        async for page in pages:
            found += [each.metadata.name for each in page.items]
    return found
