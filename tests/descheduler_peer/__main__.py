"""Compares our plugins with the community's on generated clusters, and counts how the answers compare.

    python -m tests.descheduler_peer [--record | --binary] [SEED [SEED]]
                    exit code 0: at most 1 % of the answers differ for no known reason; 1: more do; 3: no Go, or too old

``--record`` asks the community's plugins (Go) and writes their answers first. ``--binary`` lets the community's
descheduler evict from an API server that is started here, and compares its plugins as they are asked otherwise, too:
one plugin a cluster, 40 clusters. A seed shows what differs; two seeds are a range of them. About seeds that are not
among the 600 recorded ones, the community's plugins are asked.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.cluster import binaries
from tests.descheduler_peer import answers, binary, judge
from tests.descheduler_peer.answers import Compared
from tests.descheduler_peer.differences import Case, Kind, kind

BINARY_CLUSTERS: Final = 40


def main() -> int:
    """Run a comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.descheduler_peer")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--record", action="store_true", help="ask the community's plugins anew")
    way.add_argument("--binary", action="store_true", help="let the community's descheduler evict")
    parser.add_argument("seeds", type=int, nargs="*", metavar="SEED")
    chosen = parser.parse_args()
    first, *last = chosen.seeds or (0, (BINARY_CLUSTERS if chosen.binary else answers.CLUSTERS) - 1)
    seeds = range(first, (last[0] if last else first) + 1)
    try:
        if chosen.record:
            answers.record(binaries.build(binaries.descheduler_plugins()), range(answers.CLUSTERS))
        compared = list(_binary(seeds)) if chosen.binary else answers.compared(seeds, known=_known(seeds))
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    return _report(compared, shows_all=len(seeds) == 1)


def _known(seeds: range) -> answers.Known:
    if seeds.stop <= answers.CLUSTERS:
        return answers.recorded()
    return answers.asked(binaries.build(binaries.descheduler_plugins()), seeds)


def _binary(seeds: range) -> Iterator[Compared]:
    """Yield how our answers compare with what the community's descheduler evicted."""
    plugins, program = (binaries.build(of) for of in (binaries.descheduler_plugins(), binaries.descheduler()))
    with tempfile.TemporaryDirectory() as folder, binary.cluster() as server:
        evicted = asyncio.run(binary.answers(server, program, seeds, folder=Path(folder)))
    for seed, (question, theirs) in zip(seeds, evicted, strict=True):
        [policy] = question["policies"]
        [plugin] = (profile["name"] for profile in policy["profiles"])
        [(ours, result)] = judge.ours(question["objects"], [policy])
        case = Case(plugin, policy, question["objects"], ours, theirs, result)
        if theirs not in next(judge.upstream(plugins, [question]))[plugin]:
            yield seed, plugin, "the descheduler evicts others than its plugins", case
        elif ours == theirs:
            yield seed, plugin, answers.SAME, None
        else:
            yield seed, plugin, kind(case), case


def _report(compared: Iterable[Compared], *, shows_all: bool) -> int:
    counts: Counter[tuple[str, str]] = Counter()
    for seed, plugin, why, case in compared:
        counts[plugin, why] += 1
        if case is not None and (why is Kind.OTHER or shows_all):
            _print(seed, case, why)
    for (plugin, why), count in sorted(counts.items()):
        sys.stdout.write(f"{count:6} {plugin}: {why or 'DIFFERENT'}\n")
    others = sum(count for (_, why), count in counts.items() if not why)
    sys.stdout.write(f"{counts.total()} answers, {others} differ for no known reason\n")
    return int(others > counts.total() / 100)


def _print(seed: int, case: Case, why: str) -> None:
    sys.stdout.write(f"seed {seed}, {case.plugin}: {why or 'different'}\n  {case.policy}\n")
    sys.stdout.write(f"  upstream: {case.theirs}\n  ours:     {case.ours}\n")
    for decision in case.result.decisions:
        verdict = decision.verdict
        what = f"goes to {verdict.node or 'any node'}" if verdict.accepted else f"stays: {verdict.message}"
        sys.stdout.write(f"    {decision.pod.metadata.name} on {decision.node}, {decision.reason}: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
