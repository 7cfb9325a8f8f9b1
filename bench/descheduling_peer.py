"""The community's plugins on the cluster of `bench.descheduling`, beside ours with the same arguments.

Theirs run in a process of their own (tests/cluster/descheduler): caches are filled before, an eviction is a call that
costs nothing, and the fake clientset answers no other request. Theirs and ours have DefaultEvictor with ``nodeFit``.
Ours also make the snapshot that theirs do not need, hold a place for each pod that goes, and ask budgets, which the
API server does for theirs.
"""

import json
import statistics
import subprocess
from pathlib import Path
from time import thread_time
from typing import IO, Any, Final

from bench.descheduling_cluster import PROFILES, Cluster, Json
from dra.api.descheduler.forms import DEFAULT_EVICTOR, read_configuration
from dra.engine.descheduling.profiles import compile_descheduling
from dra.engine.descheduling.round import run_round
from dra.engine.descheduling.snapshot import Snapshot
from tests.cluster import binaries
from tests.descheduler_peer import policies
from tests.dra.engine.migration.examples import NOW, at

MARK: Final = "descheduling-peer"

_EVICTOR: Final[Json] = {"name": DEFAULT_EVICTOR, "args": {"nodeFit": True}}


def policy() -> Json:
    """Return the policy for both sides: the plugins of the bench that both have."""
    return {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [_profile(name) for name in PROFILES],
    }


def _profile(name: str) -> Json:
    known = {
        point: {plugin: args for plugin, args in plugins.items() if plugin in policies.PLUGINS}
        for point, plugins in PROFILES[name].items()
    }
    configs = [{"name": plugin, "args": args} for plugins in known.values() for plugin, args in plugins.items()]
    return {
        "name": name,
        "plugins": {point: {"enabled": list(plugins)} for point, plugins in known.items()},
        "pluginConfig": [_EVICTOR, *configs],
    }


class Question:
    """A file that asks the community's plugins about the objects of a cluster."""

    def __init__(self, file: IO[str], *, times: int) -> None:
        """Begin the question, which is asked a number of times."""
        self._file, self._separator = file, ""
        file.write(json.dumps({"now": at(0), "times": times, "policies": [policy()]})[:-1] + ', "objects": [')

    def show(self, kind: str, content: str) -> None:
        """Add an object; the plugins of both read no NodeMetrics."""
        if kind == "NodeMetric":
            return
        self._file.write(f'{self._separator}{{"apiVersion": "v1", "kind": "{kind}", {content[1:]}')
        self._separator = ","

    def end(self) -> None:
        """End the question."""
        self._file.write("]}\n")
        self._file.flush()


def table(cluster: Cluster, question: Path, *, times: int) -> str:
    """Run both sides a number of times, and return a table of medians. Raises NoGoError, CalledProcessError."""
    seconds, evicted = _ours(cluster, times=times)
    their_seconds, their_evicted = _theirs(question)
    snapshot, whole = (statistics.median(column) for column in zip(*seconds, strict=True))
    theirs = statistics.median(their_seconds)
    return "\n".join(
        [
            *("| the ten plugins of both | ours | the community's |", "|---|---:|---:|"),
            f"| round, s | {whole:.1f}, of which {snapshot:.1f} for the snapshot | {theirs:.1f} |",
            f"| pods that go | {evicted:,} | {their_evicted:,} |",
            f"| **theirs : ours** | | {theirs / whole:.1f}× |",
        ]
    )


def _ours(cluster: Cluster, *, times: int) -> tuple[list[tuple[float, float]], int]:
    """Return the seconds of each snapshot, and with its round; and the number of pods that go."""
    content = policy()
    for profile in content["profiles"]:
        profile["plugins"] |= {
            point: {"enabled": [DEFAULT_EVICTOR], "disabled": ["*"]} for point in ("evict", "filter")
        }
    compiled = compile_descheduling(read_configuration(content))
    if compiled is None:
        raise SystemExit("no profiles")
    seconds, evicted = [], 0
    for _ in range(times):
        objects = cluster.objects()
        begun = thread_time()
        snapshot = Snapshot(objects, now=NOW)
        made = thread_time()
        result = run_round(snapshot, compiled.profiles_on(objects.nodes), limits=compiled.limits)
        seconds.append((made - begun, thread_time() - begun))
        evicted = sum(decision.verdict.accepted for decision in result.decisions)
        snapshot.forget_parts()
    return seconds, evicted


def _theirs(question: Path) -> tuple[list[float], int]:
    """Return the seconds of each round of the community's plugins, and the number of pods that go."""
    program = binaries.build(binaries.descheduler_plugins())
    with question.open(encoding="ascii") as file:
        done = subprocess.run([program], stdin=file, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - built here
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["seconds"][0], len({pod for pod, _ in answer["evicted"][0][0]})
