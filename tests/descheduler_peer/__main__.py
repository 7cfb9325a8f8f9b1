"""Compares our plugins with the community's on generated clusters, and counts how the answers compare.

    python -m tests.descheduler_peer [--record] [SEED [SEED]]
                    exit code 0: at most 1 % of the answers differ for no known reason; 1: more do; 3: no Go, or too old

``--record`` asks the community's plugins (Go) and writes their answers first. A seed shows its answers that differ for
no known reason; two seeds are a range of them.
"""

import argparse
import sys
from collections import Counter

from tests.cluster import binaries
from tests.descheduler_peer import answers
from tests.descheduler_peer.differences import Case, Kind


def main() -> int:
    """Run a comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.descheduler_peer")
    parser.add_argument("--record", action="store_true", help="ask the community's plugins anew")
    parser.add_argument("seeds", type=int, nargs="*", metavar="SEED")
    chosen = parser.parse_args()
    if chosen.record:
        try:
            program = binaries.build(binaries.descheduler())
        except binaries.NoGoError as error:
            sys.stderr.write(f"error: {error}\n")
            return binaries.EXIT_NO_GO
        answers.record(program, range(answers.CLUSTERS))
    first, *last = chosen.seeds or (0, answers.CLUSTERS - 1)
    seeds = range(first, (last[0] if last else first) + 1)
    counts: Counter[tuple[str, str]] = Counter()
    for seed, plugin, kind, case in answers.compared(seeds):
        counts[plugin, kind] += 1
        if case is not None and (kind is Kind.OTHER or len(seeds) == 1):
            _print(seed, case, kind)
    for (plugin, kind), count in sorted(counts.items()):
        sys.stdout.write(f"{count:6} {plugin}: {kind or 'DIFFERENT'}\n")
    others = sum(count for (_, kind), count in counts.items() if not kind)
    sys.stdout.write(f"{counts.total()} answers, {others} differ for no known reason\n")
    return int(others > counts.total() / 100)


def _print(seed: int, case: Case, kind: str) -> None:
    sys.stdout.write(f"seed {seed}, {case.plugin}: {kind or 'different'}\n  {case.policy}\n")
    sys.stdout.write(f"  upstream: {case.theirs}\n  ours:     {case.ours}\n")
    for decision in case.result.decisions:
        verdict = decision.verdict
        what = f"goes to {verdict.node or 'any node'}" if verdict.accepted else f"stays: {verdict.message}"
        sys.stdout.write(f"    {decision.pod.metadata.name} on {decision.node}, {decision.reason}: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
