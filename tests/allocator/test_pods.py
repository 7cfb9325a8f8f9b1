"""`kubectl dra simulate` says what kube-scheduler said of the same pods; `make simulate-scheduler` asks it again."""

import pytest

from dra.cli.kubectl.simulate.simulation import Verdict
from tests.allocator import pod_answers
from tests.allocator.pod_answers import FAILED, PLACED, REFUSED, Compared
from tests.allocator.pod_differences import DIFFERENT_MAX, kind

UNDECIDED_MAX = 0.06
"""Greatest part of the pods that `simulate` may leave undecided: the others test what it says."""


def compared(count):
    """Return how the answers compare, for as many pods in one cluster as the scheduler was asked about."""
    recorded, found = pod_answers.recorded(), []
    asked = {seed: question for seed, (question, _) in recorded.items() if seed < count}
    for questions in pod_answers.batches(asked):
        outcomes = pod_answers.told(pod_answers.snapshot(questions), questions)
        for seed, question in questions.items():
            name, named = pod_answers.named_question(seed, question)
            found.append(Compared(seed, named, outcomes[name], recorded[seed][1]))
    return found


def test_the_recorded_pods_ask_about_everything():
    answers = [answer for _, answer in pod_answers.recorded().values()]
    assert len(answers) >= 2_000
    assert all(answers.count(answer) > 150 for answer in (PLACED, REFUSED, FAILED))


@pytest.mark.parametrize(
    "field", ["affinity", "hostNetwork", "runtimeClassName", "topologySpreadConstraints", "volumes"]
)
def test_the_recorded_pods_have_fields_that_exclude_nodes(field):
    answers = {answer for question, answer in pod_answers.recorded().values() if field in question["pod"]}
    assert answers >= {PLACED, REFUSED}


@pytest.mark.parametrize(
    "count", [pytest.param(450, id="some"), pytest.param(1_000_000, id="all", marks=pytest.mark.long)]
)
def test_it_says_what_the_scheduler_said(count):
    answers = compared(count)
    undecided = [answer for answer in answers if answer.told.verdict is Verdict.UNDECIDED]
    assert 0 < len(undecided) <= UNDECIDED_MAX * len(answers)
    different = [each for each in answers if each.differ]
    fits_wrongly = [str(each) for each in different if each.fits]
    assert not fits_wrongly, "\n".join(fits_wrongly)
    assert len(different) <= DIFFERENT_MAX * len(answers)
    unknown = [str(each) for each in different if not kind(each)]
    assert not unknown, "\n".join(unknown)
