"""Compares the answers of both allocators to generated questions, and counts them.

    python -m tests.allocator [--cases 2000] [SEED]
                    exit code 0: the same, or a difference that is known; 1: answers differ; 3: no Go, or too old

Seeds count on from SEED. A question whose answers differ is printed with both of them.
"""

import argparse
import json
import sys
from collections import Counter

from tests.allocator import cases, judge
from tests.allocator.differences import known
from tests.cluster import binaries


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.allocator")
    parser.add_argument("--cases", type=int, default=2000, metavar="NUMBER")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    try:
        program = binaries.build(binaries.allocator())
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    seeds = range(chosen.seed, chosen.seed + chosen.cases)
    questions = [cases.question(seed) for seed in seeds]
    counts: Counter[str] = Counter()
    for seed, question, theirs in zip(seeds, questions, judge.upstream(program, questions), strict=True):
        counts[_count(seed, question, theirs)] += 1
    version = binaries.allocator().version
    sys.stdout.write(f"{chosen.cases} cases, k8s.io/dynamic-resource-allocation {version}:\n")
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in counts.most_common())
    return 1 if counts["different"] else 0


def _count(seed: int, question: cases.Json, theirs: object) -> str:
    """Return what the answers to a question count as."""
    ours = judge.ours(question)
    if ours == theirs:
        return f"the same: {ours if isinstance(ours, str) else 'allocated'}"
    if ours == judge.TOO_LONG:
        return judge.TOO_LONG
    why = known(question)
    if not why:
        sys.stdout.write(f"seed {seed}: {json.dumps(question)}\n  upstream: {theirs}\n  dra-reserve: {ours}\n")
    return f"known: {why}" if why else "different"


if __name__ == "__main__":
    sys.exit(main())
