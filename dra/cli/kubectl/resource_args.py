"""Parses ``KIND NAME`` and ``KIND/NAME`` on a command line, with every alias that kubectl accepts for a kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem

from dra.cli.kubectl.client_flags import flags_of
from dra.cli.kubectl.object_names import list_names_of_kind, list_object_names
from dra.cli.kubectl.printers import did_you_mean
from dra.cli.kubectl.snapshots.snapshot_source import SnapshotSource
from dra.kube.resources import CLAIMS, NODES, POD_MIGRATION_JOBS, PODS, RESERVATIONS, SLICES, Resource
from dra.model.workload_types import PODS as POD
from dra.model.workload_types import WORKLOAD_TYPES

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


MIGRATED_KINDS: Final = ("pod", "node")

CompletionFunction: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

FixedNames: TypeAlias = Mapping[str, Callable[[], list[str]]]
"""Kind → the names of the kind, for kinds that are not objects of a cluster."""


class KindParam(click.ParamType):  # type: ignore[type-arg] # not generic in click 8.3
    """The type of a command's first argument: a kind, or a kind and a name."""

    name = "KIND"

    def __init__(
        self, offered: Sequence[str], *, fixed_names: FixedNames | None = None, workloads: bool = False
    ) -> None:
        """Create the type; shell completion offers the kinds of ``offered``, and names behind ``KIND/``.

        With ``workloads``, kinds of workloads are offered, and names behind any kind that the cluster serves.
        """
        self.offered = offered
        self.fixed_names = fixed_names or {}
        self.workloads = workloads

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the kinds that begin with the incomplete word."""
        del param
        kind, slash, name = incomplete.partition("/")
        if slash:
            names = _complete_names(kind, ctx, self.fixed_names, workloads=self.workloads)
            return [CompletionItem(f"{kind}/{candidate}") for candidate in names if candidate.startswith(name)]
        kinds = [*self.offered, *(_workload_kinds(all_kinds=bool(incomplete)) if self.workloads else ())]
        return [CompletionItem(kind) for kind in kinds if kind.startswith(incomplete)]


def parse_resource_args(
    kind: str, name: str | None, *, among: Sequence[str], named: bool = True
) -> tuple[str, str | None]:
    """Return the kind, one of ``among``, and the name: ``claim train`` and ``claim/train`` are the same."""
    if name is None:
        kind, _, name = kind.partition("/")
    short = kind.partition(".")[0].lower()
    kind_name = next((candidate for candidate in among if short in KIND_ALIASES[candidate]), None)
    if kind_name is None:
        typed = [alias for known in among for alias in KIND_ALIASES[known]]
        one = f"no {among[0]}: {among[0]} NAME, or {among[0]}/NAME"
        several = f"none of {', '.join(among)}"
        raise click.UsageError(f"{kind!r} is {one if len(among) == 1 else several}{did_you_mean(short, typed)}")
    if named and not name:
        raise click.UsageError(f"which {kind_name}? {kind_name} NAME, or {kind_name}/NAME")
    return kind_name, name or None


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

    def __init__(self, *, fixed_names: FixedNames | None = None, workloads: bool = False) -> None:
        """Create the type; ``fixed_names`` has the names of kinds that no cluster has, ``workloads`` as above."""
        self.fixed_names = fixed_names or {}
        self.workloads = workloads

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the incomplete word."""
        del param
        kind = str(ctx.params.get("kind") or ctx.params.get("what") or "")
        names = [] if "/" in kind else _complete_names(kind, ctx, self.fixed_names, workloads=self.workloads)
        return [CompletionItem(candidate) for candidate in names if candidate.startswith(incomplete)]


def _complete_names(words: str, ctx: click.Context, fixed_names: FixedNames, *, workloads: bool) -> list[str]:
    """Return the names of a kind: fixed ones, or those of the cluster; a bundle is not read for them."""
    short = words.partition(".")[0].lower()
    kind = next((candidate for candidate, typed in KIND_ALIASES.items() if short in typed), None)
    if kind is not None and kind in fixed_names:
        return fixed_names[kind]()
    if ctx.params.get("bundle"):
        return []
    if kind is not None:
        return list_names(kind, ctx.params)
    return list_workload_names(words, ctx.params) if workloads and words else []


def _workload_kinds(*, all_kinds: bool) -> list[str]:
    """Return words for kinds of workloads: the kinds of Kubernetes itself, or all that have rules."""
    known = [
        workload_type.kind.lower() if workload_type.aliases else str(workload_type.resource)
        for workload_type in WORKLOAD_TYPES
        if workload_type.resource != POD
    ]
    return known if all_kinds else [kind for kind in known if "." not in kind]


def complete_names_of(kind: str, *, suffix: str = "") -> CompletionFunction:
    """Return a function for ``shell_complete`` that offers the names of a kind, each with the suffix."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        del param
        names = [] if ctx.params.get("bundle") else list_names(kind, ctx.params)
        return [f"{candidate}{suffix}" for candidate in names if candidate.startswith(incomplete)]

    return complete


def complete_workload(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return kinds of workloads, each with a slash, or the names behind a kind."""
    kinds = KindParam((), workloads=True).shell_complete(ctx, param, incomplete)
    return kinds if "/" in incomplete else [CompletionItem(f"{item.value}/") for item in kinds]


COMPLETED_RESOURCES: Final[Mapping[str, Resource]] = {
    "claim": CLAIMS,
    "pod": PODS,
    "node": NODES,
    "device": SLICES,
    "reservation": RESERVATIONS,
    "migration": POD_MIGRATION_JOBS,
}


def list_workload_names(words: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a kind in the selected namespace, for any word that kubectl accepts; never raise an error."""
    cluster_flags = flags_of(options)
    try:
        namespace = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=options.get("namespace")).namespace
    except click.ClickException:
        return []
    return list_names_of_kind(cluster_flags, words, namespace)


def list_names(kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the names of a kind, in the namespace that the command line selects; never raise an error."""
    resource = COMPLETED_RESOURCES.get(kind)
    if resource is None:
        return []
    cluster_flags = flags_of(options)
    try:
        source = SnapshotSource(cluster_flags=cluster_flags, requested_namespace=options.get("namespace"))
        namespace = source.namespace if resource.namespaced else None
    except click.ClickException:
        return []
    return list_object_names(cluster_flags, resource, namespace)
