"""Each kind of problem has words and, where anything can be done, a remedy; names cannot smuggle in a command."""

import re
import shlex

import pytest

from dra.cli.kubectl.diagnosis import describer, problem_texts
from dra.cli.kubectl.diagnosis.problem_texts import PROBLEM_TEXTS
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.diagnosis.problems import claim_problem, pod_problem
from dra.engine.messages.remedies import SafeCommand, WeighedChoice
from dra.model.meta import Uid
from tests.violations import for_each, for_each_case

PASTED = [
    (trouble, each)
    for trouble in ProblemCode
    for each in (PROBLEM_TEXTS[trouble].remedy, PROBLEM_TEXTS[trouble].otherwise)
    if isinstance(each, SafeCommand)
]


@for_each(ProblemCode)
def test_each_trouble_has_words(trouble):
    assert PROBLEM_TEXTS[trouble].text


@pytest.mark.parametrize(("trouble", "paste"), PASTED, ids=lambda each: getattr(each, "value", ""))
def test_a_command_names_one_object_and_its_namespace(trouble, paste):
    del trouble
    fields = set(re.findall(r"(?<!\{)\{(\w+)\}", paste.command))
    assert {"namespace", "name"} <= fields


@for_each_case([each for each in ProblemCode if PROBLEM_TEXTS[each].needs])
def test_a_remedy_that_needs_a_fact_has_another_one_beside_it(trouble):
    assert PROBLEM_TEXTS[trouble].otherwise is not None


def problem(trouble, **facts):
    return claim_problem(trouble, key=("ml", "c"), uid=Uid("u"), **facts)


def test_names_are_quoted():
    found = problem_texts.safe_command(
        problem(ProblemCode.KIND_UNKNOWN, workload="w", kind="k", meant="$(reboot)", revision="7")
    )
    assert shlex.split(found)[-1] == "reserve.dra/reserved-for=$(reboot)"
    assert "'$(reboot)'" in found


def test_what_somebody_wrote_on_a_claim_never_becomes_a_command():
    told = problem(ProblemCode.KEPT_BY_OTHERS, entries="widgets.example.com/kubectl delete node n1")
    found = problem_texts.problem_remedy(told)
    assert isinstance(found, WeighedChoice)
    assert "kubectl: delete node n1" in found.text


@pytest.mark.parametrize(
    ("trouble", "facts"),
    [
        pytest.param(ProblemCode.MALFORMED, {"error": "no"}, id="a-reference-with-a-wrong-form"),
        pytest.param(
            ProblemCode.WORKLOAD_NOT_FOUND, {"workload": "jobs.batch/x"}, id="a-workload-that-is-not-there-yet"
        ),
        pytest.param(ProblemCode.WRONG_UID, {"workload": "w", "expected": "x", "actual": "y"}, id="the-uid-of-another"),
    ],
)
@pytest.mark.parametrize("guess", ["", "jobs.batch/train"])
def test_what_a_person_wrote_on_a_claim_is_corrected_by_a_person(trouble, facts, guess):
    found = problem_texts.problem_remedy(problem(trouble, guess=guess, **facts))
    assert isinstance(found, WeighedChoice)
    assert not guess or trouble is ProblemCode.WRONG_UID or guess in found.text


def test_a_text_names_the_object_first():
    told = pod_problem(
        ProblemCode.ALLOCATION_LOST, key=("ml", "a"), uid=Uid("u"), node="n1", claim="c", owner="job train"
    )
    assert problem_texts.problem_text(told).startswith("pod ml/a: is bound to node n1")
    assert "its controller, job train, creates a new pod" in describer.remedy_or_guidance(told, within="ml").text


def test_a_pod_that_does_not_start_is_deleted_only_while_it_does_not():
    told = pod_problem(
        ProblemCode.OFF_ALLOCATION, key=("ml", "a"), uid=Uid("u"), node="n1", claim="c", owner="replicaset web"
    )
    assert problem_texts.safe_command(told) == (
        "kubectl delete pods -n ml --wait=false --field-selector metadata.name=a,spec.nodeName=n1,status.phase=Pending"
    )


@pytest.mark.parametrize("owner", ["job train", "another job train", "pytorchjob train"])
def test_a_pod_whose_deletion_may_fail_its_controller_is_not_deleted_by_a_pasted_command(owner):
    told = pod_problem(ProblemCode.OFF_ALLOCATION, key=("ml", "a"), uid=Uid("u"), node="n1", claim="c", owner=owner)
    assert problem_texts.safe_command(told) == ""
    assert "backoffLimit" in describer.remedy_or_guidance(told, within="ml").text


def test_a_pod_that_nobody_makes_again_is_not_deleted_by_a_pasted_command():
    told = pod_problem(ProblemCode.OFF_ALLOCATION, key=("ml", "a"), uid=Uid("u"), node="n1", claim="c", owner="")
    assert problem_texts.safe_command(told) == ""


def test_a_text_names_a_few_pods_and_the_decision_whose_they_are():
    pods = [f"a-{number}" for number in range(20)]
    told = problem(
        ProblemCode.RELEASE_WAITS,
        workload="w",
        pods=" ".join(pods),
        count=642,
        whose="a-0 of job train; b of another job x",
    )
    assert problem_texts.problem_text(told).endswith("reference the claim: a-0, a-1, a-2, a-3, a-4 and 637 more")
    found = problem_texts.problem_remedy(told)
    assert isinstance(found, WeighedChoice)
    assert "a-0 of job train; b of another job x" in found.text


def test_a_claim_of_another_namespace_is_its_owners_to_mend():
    told = problem(ProblemCode.NOT_FREED, presence="absent", lease="l")
    assert problem_texts.safe_command(told, within="ml") == "kubectl dra release claim c -n ml --if-unused"
    assert problem_texts.safe_command(told) == "kubectl dra release claim c -n ml --if-unused"
    assert problem_texts.problem_remedy(told, within="other") == WeighedChoice(
        "ask the owner of namespace ml, who owns claim ml/c"
    )


NOT_OTHERS = {"others": "", "count_text": ""}


def test_a_problem_without_a_command_says_what_to_do():
    missing = pod_problem(ProblemCode.CLAIM_MISSING, key=("ml", "p"), uid=Uid("u"), claim="c", hint="")
    idle = problem(ProblemCode.IDLE, workload="jobs.batch/train")
    gated = pod_problem(ProblemCode.GATED, key=("ml", "p"), uid=Uid("u"), lease="l", alone=1, **NOT_OTHERS)
    _, todo = describer.problem_lines([missing], within="ml")
    assert todo == "  do        create the claim, or create the pod again with the right name"
    misspelled = pod_problem(
        ProblemCode.CLAIM_MISSING, key=("ml", "p"), uid=Uid("u"), claim="c", similar="lm/c", hint=""
    )
    _, todo = describer.problem_lines([misspelled], within="ml")
    assert todo.startswith("  do        there is claim lm/c. A pod uses only claims of its own namespace")
    assert len(list(describer.problem_lines([idle], within="ml"))) == 1
    assert [line.split()[0] for line in describer.problem_lines([gated], within="ml")][1:] == ["next"]


@pytest.mark.parametrize(
    ("running", "advice"),
    [
        pytest.param(0, "install the dra-reserve controller in mode replace", id="no-controller"),
        pytest.param(1, "a dra-reserve controller runs, but creates claims in mode replace only", id="a-controller"),
    ],
)
def test_the_advice_about_a_claim_that_is_not_made_knows_of_a_running_controller(running, advice):
    told = pod_problem(ProblemCode.CLAIM_NOT_MADE, key=("ml", "a"), uid=Uid("u"), template="t", running=running)
    found = describer.remedy_or_guidance(told, within="ml").text
    assert "kubectl describe pod a -n ml" in found
    assert advice in found


@pytest.mark.parametrize(
    ("negative", "told"),
    [
        pytest.param(1, "kubectl dra audit", id="a-claim-with-a-negative-amount-stops-all"),
        pytest.param(0, "kubectl describe pod -n ml c", id="for-another-reason"),
    ],
)
def test_a_pod_that_the_scheduler_refuses_is_led_to_the_cause(negative, told):
    refused = pod_problem(
        ProblemCode.REFUSED,
        key=("ml", "c"),
        uid=Uid("u"),
        nodes=3,
        scheduler="default-scheduler",
        message="consumed capacity memory of device d must not be negative",
        negative=negative,
    )
    remedy = problem_texts.problem_remedy(refused)
    assert isinstance(remedy, WeighedChoice)
    assert told in remedy.text
