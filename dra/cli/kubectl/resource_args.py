"""Parses ``KIND NAME`` and ``KIND/NAME`` on a command line, with every alias that kubectl accepts for a kind."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem

KIND_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "claim": ("claim", "claims", "resourceclaim", "resourceclaims"),
    "pod": ("pod", "pods", "po"),
    "node": ("node", "nodes", "no"),
    "device": ("device", "devices"),
    "reservation": ("reservation", "reservations", "rsv"),
    "reason": ("reason", "reasons"),
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


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return a question for the end of an error, with similar words; empty if there are none."""
    near = difflib.get_close_matches(typed, sorted(set(known)), n=3)
    return f". Did you mean {' or '.join(near)}?" if near else ""


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
        from dra.cli.kubectl.snapshots.resource_names import list_names  # noqa: PLC0415 - only the tab key needs it

        return [CompletionItem(each) for each in list_names(found, ctx.params) if each.startswith(incomplete)]
