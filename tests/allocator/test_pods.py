"""`kubectl dra simulate` says what kube-scheduler said of the same pods; `make simulate-scheduler` asks it again."""

from collections import Counter

import pytest

from dra.cli.kubectl.simulate.simulation import Verdict
from tests.allocator import pod_answers
from tests.allocator.pod_answers import FAILED, PLACED, REFUSED, Compared
from tests.allocator.pod_differences import DIFFERENT_MAX, kind

EXCLUDING_FIELDS = {"affinity", "hostNetwork", "runtimeClassName", "topologySpreadConstraints", "volumes"}

UNDECIDED_MAX = 0.06
"""Greatest part of the pods that `simulate` may leave undecided: the others test what it says."""


def all_answers(recorded):
    """Return how the answers compare, for as many pods in one cluster as the scheduler was asked about."""
    answers = []
    for questions in pod_answers.batches({seed: question for seed, (question, _) in recorded.items()}):
        outcomes = pod_answers.told(pod_answers.snapshot(questions), questions)
        for seed, question in questions.items():
            name, named = pod_answers.named_question(seed, question)
            answers.append(Compared(seed, named, outcomes[name], recorded[seed][1]))
    return answers


def test_the_recorded_pods_ask_about_everything():
    answers = Counter(answer for _, (_, answer) in pod_answers.recorded())
    assert answers.total() >= 2_000
    assert all(answers[answer] > 150 for answer in (PLACED, REFUSED, FAILED))


def test_the_recorded_pods_have_fields_that_exclude_nodes():
    answers = {field: set() for field in EXCLUDING_FIELDS}
    for _, (question, answer) in pod_answers.recorded():
        for field in EXCLUDING_FIELDS & question["pod"].keys():
            answers[field].add(answer)
    assert not [field for field, given in answers.items() if not given >= {PLACED, REFUSED}]


@pytest.mark.parametrize(
    "count", [pytest.param(450, id="some"), pytest.param(1_000_000, id="all", marks=pytest.mark.long)]
)
def test_it_says_what_the_scheduler_said(count):
    answers = all_answers({seed: asked for seed, asked in pod_answers.recorded() if seed < count})
    undecided = [answer for answer in answers if answer.told.verdict is Verdict.UNDECIDED]
    assert 0 < len(undecided) <= UNDECIDED_MAX * len(answers)
    different = [answer for answer in answers if answer.differ]
    fits_wrongly = [str(answer) for answer in different if answer.fits]
    assert not fits_wrongly, "\n".join(fits_wrongly)
    assert len(different) <= DIFFERENT_MAX * len(answers)
    unknown = [str(answer) for answer in different if not kind(answer)]
    assert not unknown, "\n".join(unknown)
