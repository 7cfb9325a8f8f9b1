"""Compares the answers of both allocators to generated questions, and counts them.

    python -m tests.allocator [--scheduler] [--cases 2000] [SEED]
                    exit code 0: the same, or a difference that is known; 1: answers differ; 3: no Go, or too old

Seeds count on from SEED. A question whose answers differ is printed with both of them. With ``--scheduler``, a running
kube-scheduler is asked instead of its allocator alone: the questions are objects in a cluster that is started here.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator

from tests.allocator import cases, judge, placing
from tests.allocator.differences import known
from tests.cluster import binaries

Answered = tuple[str, cases.Json, object]
"""What a question is called, the question, and upstream's answer."""


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.allocator")
    parser.add_argument("--cases", type=int, default=2000, metavar="NUMBER")
    parser.add_argument("--scheduler", action="store_true", help="ask a running kube-scheduler")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    questions = {f"q{seed}": cases.question(seed) for seed in range(chosen.seed, chosen.seed + chosen.cases)}
    counts: Counter[str] = Counter()
    try:
        whom, answered = _placed(questions) if chosen.scheduler else _allocated(questions)
        for name, question, theirs in answered:
            counts[_count(name, question, theirs)] += 1
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    sys.stdout.write(f"{chosen.cases} cases, {whom}:\n")
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in counts.most_common())
    return 1 if counts["different"] else 0


def _allocated(questions: dict[str, cases.Json]) -> tuple[str, Iterator[Answered]]:
    """Return who was asked, and the answers of kube-scheduler's allocator."""
    program = binaries.allocator()
    answers = judge.upstream(binaries.build(program), list(questions.values()))
    whom = f"k8s.io/dynamic-resource-allocation {program.version}"
    return whom, ((name, question, theirs) for (name, question), theirs in zip(questions.items(), answers, strict=True))


def _placed(questions: dict[str, cases.Json]) -> tuple[str, Iterator[Answered]]:
    """Return who is asked, and the answers of a running kube-scheduler: first by default gates, then with lists."""
    lists = {name: question for name, question in questions.items() if question["lists"]}
    rest = {name: question for name, question in questions.items() if not question["lists"]}

    def answers() -> Iterator[Answered]:
        for gates, those in (({}, rest), ({"DRAListTypeAttributes": True}, lists)):
            with placing.cluster(placing.KUBERNETES, feature_gates=gates) as server:
                yield from asyncio.run(placing.answers(server, those))

    return f"kube-scheduler {binaries.controlplane(placing.KUBERNETES).version}", answers()


def _count(name: str, question: cases.Json, theirs: object) -> str:
    """Return what the answers to a question count as."""
    ours = judge.ours(question)
    if ours == theirs:
        return f"the same: {ours if isinstance(ours, str) else 'allocated'}"
    if ours == judge.TOO_LONG:
        return judge.TOO_LONG
    why = known(question)
    if not why:
        sys.stdout.write(f"{name}: {json.dumps(question)}\n  upstream: {theirs}\n  dra-reserve: {ours}\n")
    return f"known: {why}" if why else "different"


if __name__ == "__main__":
    sys.exit(main())
