"""The community's recorded answers, and our answers beside them.

``answers.jsonl.gz`` has a line for each seed: a digest of the question, and for each plugin, in the order of
`policies.PLUGINS`, the distinct answers that upstream gave when asked several times.
"""

import gzip
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from tests.descheduler_peer import clusters, judge, policies
from tests.descheduler_peer.differences import Case, Kind, kind

FILE: Final = Path(__file__).parent / "answers.jsonl.gz"
CLUSTERS: Final = 600
TIMES: Final = 5
"""How often each question is asked: upstream's answer is another one from time to time."""

Known: TypeAlias = dict[int, tuple[str, list[list[judge.Answer]]]]
"""Seed → digest of the question, and for each plugin, in the order of `policies.PLUGINS`, its distinct answers."""

Compared: TypeAlias = tuple[int, str, Kind | str, Case | None]
"""Seed, plugin, how the answers compare, and the case if they differ."""

SAME: Final = "the same"


class StaleAnswersError(Exception):
    """The recorded answers are answers to other questions."""


def record(program: Path, seeds: Sequence[int]) -> None:
    """Ask upstream, and write its answers. Raises CalledProcessError."""
    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        for seed, (digest, answers) in asked(program, seeds).items():
            line = {"seed": seed, "question": digest, "answers": answers}
            file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def asked(program: Path, seeds: Sequence[int]) -> Known:
    """Return upstream's answers to seeds that need not be recorded. Raises CalledProcessError."""
    questions = [judge.question(seed, times=TIMES) for seed in seeds]
    return {
        seed: (_digest(question), [answers[name] for name in policies.PLUGINS])
        for seed, question, answers in zip(seeds, questions, judge.upstream(program, questions), strict=True)
    }


def recorded() -> Known:
    """Return the recorded answers."""
    by_seed: Known = {}
    with gzip.open(FILE, "rt", encoding="ascii") as file:
        for line in map(json.loads, file):
            answers = [[_answer(answer) for answer in of_plugin] for of_plugin in line["answers"]]
            by_seed[line["seed"]] = (line["question"], answers)
    return by_seed


def compared(
    seeds: Iterable[int], *, plugins: Collection[str] = policies.PLUGINS, known: Known | None = None
) -> Iterator[Compared]:
    """Yield for each seed and plugin how our answer compares with upstream's. Raises StaleAnswersError.

    Upstream's answers are the recorded ones unless others are given. Where it answers differently from time to time,
    the answer counts that ours comes closest to.
    """
    known = recorded() if known is None else known
    for seed in seeds:
        question = judge.question(seed, times=TIMES)
        digest, answers = known[seed]
        if digest != _digest(question):
            raise StaleAnswersError(f"seed {seed}: the question has changed; make descheduler-peer asks anew")
        objects = question["objects"]
        chosen = [
            (plugin, policy, theirs)
            for plugin, policy, theirs in zip(policies.PLUGINS, question["policies"], answers, strict=True)
            if plugin in plugins
        ]
        given = judge.ours(objects, [policy for _, policy, _ in chosen])
        for (plugin, policy, theirs), (ours, result) in zip(chosen, given, strict=True):
            if ours in theirs:
                yield seed, plugin, SAME, None
                continue
            cases = [Case(plugin, policy, objects, ours, answer, result) for answer in theirs]
            case = next((case for case in cases if kind(case) is not Kind.OTHER), cases[0])
            yield seed, plugin, kind(case), case


def _digest(question: clusters.Json) -> str:
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]


def _answer(given: list[list[str | int]]) -> judge.Answer:
    return tuple((str(name), int(count)) for name, count in given)
