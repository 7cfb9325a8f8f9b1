"""Compares the answers of both allocators to generated questions, and counts them.

    python -m tests.allocator [--kubernetes 1.38 | --scheduler] [--cases 2000] [SEED]
                    exit code 0: the same, or a difference that is known; 1: answers differ, or it was interrupted;
                    3: no Go, or too old

Seeds count on from SEED. A question whose answers differ is printed with both of them. With ``--scheduler``, a running
kube-scheduler is asked instead of its allocator alone: the questions are objects in a cluster that is started here.
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable

from dra.engine.allocator import AllocatorRelease, allocator_release
from tests.allocator import cases, judge, placing
from tests.allocator.differences import known
from tests.cluster import binaries

Tell = Callable[[str, cases.Json, object], None]
"""Takes what a question is called, the question, and upstream's answer."""


def main() -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(prog="python -m tests.allocator")
    parser.add_argument("--cases", type=int, default=2000, metavar="NUMBER")
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--kubernetes", choices=binaries.ALLOCATORS, default=placing.KUBERNETES, help="ask its allocator"
    )
    whose.add_argument("--scheduler", action="store_true", help="ask a running kube-scheduler")
    parser.add_argument("seed", type=int, nargs="?", default=0)
    chosen = parser.parse_args()
    questions = {f"q{seed}": cases.question(seed) for seed in range(chosen.seed, chosen.seed + chosen.cases)}
    counts: Counter[str] = Counter()

    def tell(name: str, question: cases.Json, theirs: object) -> None:
        counts[_count(name, question, theirs, allocator_release(chosen.kubernetes))] += 1

    whom = "interrupted"
    try:
        whom = _placed(questions, tell) if chosen.scheduler else _allocated(questions, tell, chosen.kubernetes)
    except KeyboardInterrupt:
        pass
    except binaries.NoGoError as error:
        sys.stderr.write(f"error: {error}\n")
        return binaries.EXIT_NO_GO
    sys.stdout.write(f"{counts.total()} of {chosen.cases} cases, {whom}:\n")
    sys.stdout.writelines(f"{number:6} {what}\n" for what, number in counts.most_common())
    return 1 if counts["different"] or counts.total() < chosen.cases else 0


def _allocated(questions: dict[str, cases.Json], tell: Tell, version: str) -> str:
    """Ask kube-scheduler's allocator of a version, and return who that is."""
    program = binaries.allocator(version)
    answers = judge.upstream(binaries.build(program), list(questions.values()))
    for (name, question), theirs in zip(questions.items(), answers, strict=True):
        tell(name, question, theirs)
    return f"k8s.io/dynamic-resource-allocation {program.version}"


def _placed(questions: dict[str, cases.Json], tell: Tell) -> str:
    """Ask a running kube-scheduler, in a cluster for each set of gates, and return who that is."""
    gated: dict[tuple[bool, bool], dict[str, cases.Json]] = {}
    for name, question in questions.items():
        gated.setdefault((question["lists"], question["fractional"]), {})[name] = question
    for switches, those in sorted(gated.items()):
        gates = {name: True for name, on in zip(placing.GATES, switches, strict=True) if on}
        with placing.cluster(placing.KUBERNETES, feature_gates=gates) as server:
            asyncio.run(placing.answers(server, those, tell))
    return f"kube-scheduler {binaries.controlplane(placing.KUBERNETES).version}"


def _count(name: str, question: cases.Json, theirs: object, release: AllocatorRelease) -> str:
    """Return what the answers to a question count as."""
    ours = judge.ours(question, release)
    if ours == theirs:
        return f"the same: {ours if isinstance(ours, str) else 'allocated'}"
    if ours == judge.TOO_LONG:
        return judge.TOO_LONG
    why = known(question)
    if not why:
        sys.stdout.write(f"{name}: {json.dumps(question)}\n  upstream: {theirs}\n  dra-reserve: {ours}\n")
        sys.stdout.flush()
    return f"known: {why}" if why else "different"


if __name__ == "__main__":
    sys.exit(main())
