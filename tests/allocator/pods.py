"""Compares what `kubectl dra simulate` and a running kube-scheduler say of generated pods.

    python -m tests.allocator.pods [--cases 2100] [--record] [SEED]
                    exit code 0: as many differences as allowed, all of known kinds; 1: more; 3: no Go, or too old

A difference is printed with the question. ``--record`` writes kube-scheduler's answers for `test_pods`.
"""

import argparse
import asyncio
import sys
from collections import Counter

from dra.cli.kubectl.simulate.simulation import Verdict
from tests.allocator import placing, pod_answers, pod_questions
from tests.allocator.cases import Json
from tests.allocator.pod_answers import Compared
from tests.allocator.pod_differences import DIFFERENT_MAX, kind
from tests.cluster import binaries


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.allocator.pods")
    parser.add_argument("--cases", type=int, default=2100, metavar="NUMBER")
    parser.add_argument("--record", action="store_true", help="write the answers for the tests")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.cases)
    questions = {seed: pod_questions.question(seed) for seed in seeds}
    try:
        compared = asyncio.run(_compared(questions))
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    if chosen.record:
        pod_answers.record(questions, compared)
    counts = Counter(_count(each) for each in compared)
    sys.stdout.write(f"{len(compared)} pods, kube-scheduler {binaries.controlplane(placing.KUBERNETES).version}:\n")
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in counts.most_common())
    different = [each for each in compared if each.differ]
    allowed = len(different) <= DIFFERENT_MAX * len(compared) and not any(kind(each) == "" for each in different)
    return 0 if allowed else 1


async def _compared(questions: dict[int, Json]) -> list[Compared]:
    with placing.cluster(placing.KUBERNETES, feature_gates={}) as server:
        return [each async for each in pod_answers.compare(server, questions)]


def _count(each: Compared) -> str:
    if each.told.verdict is Verdict.UNDECIDED:
        return f"not decided: upstream {each.answer}"
    if not each.differ:
        return f"the same: {each.answer}"
    why = kind(each)
    if not why:
        sys.stdout.write(f"{each}\n")
        sys.stdout.flush()
    return f"known: {why}" if why else f"different: upstream {each.answer}"


if __name__ == "__main__":
    sys.exit(main())
