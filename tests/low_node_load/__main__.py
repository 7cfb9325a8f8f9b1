"""Compares the answers of both plugins to generated clusters, and counts them.

    python -m tests.low_node_load [--cases 200] [--record] [SEED]
                    exit code 0: the same, or a difference that is known; 1: answers differ; 3: no Go, or too old

Seeds count on from SEED. A question takes a tenth of a second, and more on a busy machine. ``--record`` writes the
answers of Koordinator's plugin to the seeds of the tests.
"""

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from tests.cluster import binaries
from tests.low_node_load import cases, judge
from tests.low_node_load.differences import known

ANSWERS: Final = Path(__file__).with_name("answers.json")
RECORDED: Final = 160
"""Seeds whose answers are recorded."""


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.low_node_load")
    parser.add_argument("--cases", type=int, default=200, metavar="NUMBER")
    parser.add_argument("--record", action="store_true", help="write the answers that the tests compare with")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    seeds = range(RECORDED) if chosen.record else range(chosen.seed, chosen.seed + chosen.cases)
    questions = {seed: cases.question(seed) for seed in seeds}
    program = binaries.low_node_load()
    try:
        answers = judge.upstream(binaries.build(program), list(questions.values()))
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    if chosen.record:
        lines = ",\n".join(json.dumps(answer) for answer in answers)
        ANSWERS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    counts: Counter[str] = Counter()
    for (seed, question), theirs in zip(questions.items(), answers, strict=True):
        counts[_count(seed, question, theirs)] += 1
    sys.stdout.write(f"{counts.total()} clusters, LowNodeLoad of Koordinator {program.version}:\n")
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in counts.most_common())
    return 1 if counts["different"] else 0


def _count(seed: int, question: cases.Json, theirs: list[judge.Pods]) -> str:
    """Return what the answers to a question count as."""
    ours = judge.ours(question)
    if ours in theirs:
        return "the same: some pods go" if ours else "the same: no pod goes"
    if why := known(question):
        return f"known: {why}"
    sys.stdout.write(f"seed {seed}: {json.dumps(question)}\n  Koordinator: {theirs}\n  dra-reserve: {ours}\n")
    return "different"


if __name__ == "__main__":
    sys.exit(main())
