"""Each kind of problem has words and, where anything can be done, a command; names cannot smuggle in another one."""

import re
import shlex

import pytest

from dra.cli.kubectl.why import remedies, words
from dra.cli.kubectl.why.remedies import WAYS, WORDS
from dra.engine.explain.pods import Advice, Way
from dra.engine.explain.problems import Trouble, of_claim, of_pod
from dra.model.meta import Uid


@pytest.mark.parametrize("trouble", Trouble)
def test_each_trouble_has_words(trouble):
    assert WORDS[trouble].text


@pytest.mark.parametrize("trouble", [each for each in Trouble if WORDS[each].command])
def test_a_command_names_what_it_is_about(trouble):
    fields = set(re.findall(r"(?<!\{)\{(\w+)\}", WORDS[trouble].command))
    assert fields & {"namespace", "nodes", "node"}


@pytest.mark.parametrize("way", [each for each in Way if each is not Way.NONE])
def test_each_way_has_a_command(way):
    assert way in WAYS


def test_names_are_quoted():
    problem = of_claim(Trouble.WRONG_UID, key=("ml", "c"), uid=Uid("u"), workload="w", expected="x", actual="$(reboot)")
    words = shlex.split(remedies.command(problem))
    assert words[-1] == "reserve.dra/reserved-for-uid=$(reboot)"
    assert "'$(reboot)'" in remedies.command(problem)


@pytest.mark.parametrize(
    ("guess", "ending"),
    [("jobs.batch/train", "reserve.dra/reserved-for=jobs.batch/train"), ("", "reserve.dra/reserved-for-")],
    ids=["one-owner", "nobody-knows"],
)
def test_a_wrong_reference_is_corrected_if_one_can_tell_what_was_meant(guess, ending):
    problem = of_claim(Trouble.MALFORMED, key=("ml", "c"), uid=Uid("u"), error="no", guess=guess)
    assert remedies.command(problem).endswith(ending)


def test_a_text_names_the_object_first():
    problem = of_pod(Trouble.ALLOCATION_LOST, key=("ml", "a"), uid=Uid("u"), node="n1", claim="c")
    assert remedies.text(problem).startswith("pod ml/a: is bound to node n1")
    assert remedies.command(problem) == "kubectl delete pod -n ml a"


def test_a_text_names_a_few_pods_and_the_command_all():
    pods = [f"a-{number}" for number in range(20)]
    problem = of_claim(
        Trouble.RELEASE_WAITS, key=("ml", "c"), uid=Uid("u"), workload="w", pods=" ".join(pods), count=642
    )
    assert remedies.text(problem).endswith("reference the claim: a-0, a-1, a-2, a-3, a-4 and 637 more")
    assert remedies.command(problem) == f"kubectl delete pod -n ml --ignore-not-found {' '.join(pods)}"


def test_an_advice_is_a_command():
    assert remedies.advised(Advice(way=Way.UNTAINT, node="n1", detail="team=red:NoSchedule")) == (
        "kubectl taint node n1 team=red:NoSchedule-"
    )
    assert remedies.advised(Advice()) == ""


def test_a_problem_without_a_command_says_what_to_do():
    missing = of_pod(Trouble.CLAIM_MISSING, key=("ml", "p"), uid=Uid("u"), claim="c")
    idle = of_claim(Trouble.IDLE, key=("ml", "c"), uid=Uid("u"), workload="jobs.batch/train")
    gated = of_pod(Trouble.GATED, key=("ml", "p"), uid=Uid("u"), lease="l")
    _, todo = words.problem_lines([missing])
    assert todo == "  do        Create the claim; a pod that names the wrong one must be made anew."
    assert len(list(words.problem_lines([idle]))) == 1
    assert [line.split()[0] for line in words.problem_lines([gated])][1:] == ["next"]
