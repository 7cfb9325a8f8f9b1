"""`kubectl dra simulate` says what kube-scheduler said of the same pods; `make simulate-scheduler` asks it again."""

from collections import Counter

import pytest

from tests.allocator import pod_answers
from tests.allocator.pod_answers import FAILED, PLACED, REFUSED, Compared
from tests.allocator.pod_differences import DIFFERENT_MAX, kind


def different_answers(recorded):
    """Return the answers that differ, each for as many pods in one cluster as the scheduler was asked about."""
    different = []
    for questions in pod_answers.batches({seed: question for seed, (question, _) in recorded.items()}):
        outcomes = pod_answers.told(pod_answers.snapshot(questions), questions)
        for seed, question in questions.items():
            name, named = pod_answers.named_question(seed, question)
            answer = Compared(seed, named, outcomes[name], recorded[seed][1])
            if answer.differ:
                different.append(answer)
    return different


def test_the_recorded_pods_ask_about_everything():
    answers = Counter(answer for _, (_, answer) in pod_answers.recorded())
    assert answers.total() >= 2_000
    assert all(answers[answer] > 200 for answer in (PLACED, REFUSED, FAILED))


@pytest.mark.parametrize(
    "count", [pytest.param(450, id="some"), pytest.param(1_000_000, id="all", marks=pytest.mark.long)]
)
def test_it_says_what_the_scheduler_said(count):
    recorded = {seed: asked for seed, asked in pod_answers.recorded() if seed < count}
    different = different_answers(recorded)
    fits_wrongly = [str(each) for each in different if each.told.node]
    assert not fits_wrongly, "\n".join(fits_wrongly)
    assert len(different) <= DIFFERENT_MAX * len(recorded)
    unknown = [str(each) for each in different if not kind(each)]
    assert not unknown, "\n".join(unknown)
