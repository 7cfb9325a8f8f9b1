"""docs/reference/limits.md: what one tenant, one node or one client may cost each process, read from the constants."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import controller.workloads
import dra.cel.nesting
import dra.engine.kinds
import dra.kube.discovery
import dra.kube.sender
from dra.cli.reference import markdown


class Bound(NamedTuple):
    """One bound of one process."""

    limits: str
    """The noun that is bounded, and for whom."""

    value: str
    reached: str
    """Consequence when the bound is reached."""

    told: str
    """Where the consequence shows."""


_CLIENT: Final = (
    Bound(
        "requests to the API server under way at a time, watches and renewals of the lease not counted",
        str(dra.kube.sender.UNDER_WAY),
        "a request waits until another one is answered, up to its own deadline",
        "the log: `not sent in time`",
    ),
)
"""Bounds of every process that talks to an API server."""

_CONTROLLER: Final = (
    Bound(
        "kinds of workloads watched for the claims of one namespace; kinds with a release rule and built-in kinds are "
        "not counted",
        str(dra.engine.kinds.KINDS_PER_NAMESPACE),
        "further kinds are not looked for, and their claims stay reserved, until a kind goes that no claim of the "
        "namespace names any more",
        "Event `WorkloadKindsExceeded` on the claim",
    ),
    Bound(
        "first looks for kinds under way at a time",
        str(controller.workloads.LOOKS),
        "further kinds wait for their turn; a kind that the API server does not serve is looked for again after "
        f"{controller.workloads.RETRY[0]:g} to {controller.workloads.RETRY[1]:g} s, "
        f"{1 / controller.workloads.BETWEEN_TURNS:g} kinds a second at most",
        "the claim has no entry of its workload yet",
    ),
    Bound(
        "iterations of a release rule for one object",
        "10,000",
        "the object counts as not finished; its claims stay reserved until it is deleted or its controller releases "
        "them; other objects of the kind are judged as before",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    Bound(
        "levels of maps and lists in an object that a release rule is evaluated for",
        str(dra.cel.nesting.NESTING_MAX),
        "the same",
        "Event `ReleaseRuleFailed` on the claim",
    ),
    Bound(
        "API groups whose kinds are remembered",
        str(dra.kube.discovery.GROUPS_MAX),
        "the oldest is forgotten, and asked for again when it is needed",
        "–",
    ),
)

PROCESSES: Final = {
    "Every process that talks to an API server": _CLIENT,
    "The controller": _CONTROLLER,
}


def page() -> str:
    """Return the page."""
    return markdown.page(
        "Limits",
        "Bounds on what one tenant, one node or one client may cost each process, and what happens when a bound is\n"
        "reached. None of them can be configured, unless the table names the field.\n",
        *(part for title, bounds in PROCESSES.items() for part in (f"## {title}\n", _table(bounds))),
    )


def _table(bounds: Iterable[Bound]) -> str:
    return markdown.table(("limited", "to", "when it is reached", "told by"), bounds)
