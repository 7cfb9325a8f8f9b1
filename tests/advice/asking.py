"""Everything that is printed about a world, and the commands in it with what they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from dra.cli.kubectl.connection import Connection
from dra.cli.kubectl.diagnosis import audit as auditing
from dra.cli.kubectl.diagnosis import describer
from dra.cli.kubectl.print_flags import PrintOptions
from dra.cli.kubectl.snapshots.cluster_reader import SnapshotReader
from dra.cli.kubectl.snapshots.snapshot_scope import SnapshotScope
from dra.engine.diagnosis import claims, pods
from dra.engine.diagnosis.audit import audit
from dra.engine.diagnosis.cluster_state import ClusterState
from dra.engine.messages.remedies import changing_commands
from dra.kube.client import Client
from dra.kube.rate_limiter import RateLimiter
from localplane.transport import LocalTransport

if TYPE_CHECKING:
    from dra.engine.diagnosis.snapshot import Snapshot
    from localplane.server import ApiServer
    from tests.advice.comparing import Name

LEASE: Final = ("dra-reserve", "dra-reserve-controller")
_PLURALS: Final = {"claim": "resourceclaims", "pod": "pods"}
_PROBLEM: Final = re.compile(r"^ +\S+ +(?P<trouble>\w+): (?P<kind>claim|pod) (?P<key>[^ :]+): ")
_NEXT: Final = re.compile(r"^ +next +(?P<command>.*)$")


class Printed(NamedTuple):
    """A command that was printed to be pasted."""

    command: str
    about: Name
    asked: str
    trouble: str


async def snapshot(server: ApiServer) -> Snapshot:
    """Read a world as `kubectl dra` does."""
    transport = LocalTransport(server)
    connection = Connection(client=Client(transport, RateLimiter(1e6, 1e6)), transport=transport)
    return await SnapshotReader(connection, namespace=None, lease=LEASE).read(SnapshotScope.ALL)


def printed(found: Snapshot) -> list[Printed]:
    """Return all commands that any question about a world is answered with; each once for each question."""
    cluster = ClusterState(found)
    answers: list[Printed] = []
    for claim in found.claims:
        facts = claims.explain(cluster, claim.metadata.key)
        assert facts is not None
        answers += _in([*describer.describe_claim(facts)], asked=claim.metadata.namespace)
    for key in cluster.pods:
        about = pods.explain(cluster, key)
        assert about is not None
        answers += _in([*describer.describe_pod(about)], asked=key[0])
    for problem in audit(cluster):
        text = auditing._format_problems((problem,), PrintOptions())
        _, _, todo = text.partition("\n\nTo do:\n")
        todo = todo.partition("\n\nTo decide:\n")[0]
        if problem.subject.kind == "Lease":
            assert not todo, "nobody starts a controller by pasting"
            continue
        name = (_PLURALS["claim" if problem.subject.kind == "ResourceClaim" else "pod"], *problem.subject.key)
        answers += [Printed(line.strip(), name, name[1], problem.code) for line in todo.splitlines()]
        left = [each for each in changing_commands(text) if each not in todo]
        assert not left, f"{left}: a command that changes something, and not to be pasted"
    return answers


def _in(lines: list[str], *, asked: str) -> Iterator[Printed]:
    """Yield the commands of an answer, each with the problem above it; nothing else in it may change anything."""
    about, trouble = ("", "", ""), ""
    for line in lines:
        if found := _NEXT.match(line):
            yield Printed(found["command"], about, asked, trouble)
            continue
        assert not changing_commands(line), f"{line}: a command that changes something, and not to be pasted"
        if problem := _PROBLEM.match(line):
            about = (_PLURALS[problem["kind"]], *problem["key"].split("/"))  # type: ignore[assignment]
            trouble = problem["trouble"]
