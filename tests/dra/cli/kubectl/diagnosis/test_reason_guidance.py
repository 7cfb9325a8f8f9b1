import ast
import re
from itertools import chain
from pathlib import Path

from dra.cli.kubectl.diagnosis.reason_guidance import REASON_SETS
from dra.engine.claims.codes import Code
from dra.engine.diagnosis.problem_codes import ProblemCode
from dra.engine.messages.texts import ExplainedReason
from tests.commands import unknown_commands
from tests.violations import for_each

ROOT = Path(__file__).parents[5]
REASONS = list(chain.from_iterable(REASON_SETS))


def test_each_set_of_reasons_is_explained():
    assert set(ExplainedReason.__subclasses__()) == set(REASON_SETS)


@for_each(REASONS)
def test_guidance_says_meaning_cause_and_remedy_in_sentences(reason):
    guidance = reason.guidance
    for text in (guidance.meaning, guidance.cause, guidance.remedy):
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
        assert len(text) < 300
    assert len({guidance.meaning, guidance.cause, guidance.remedy}) == 3


@for_each(REASONS)
def test_remedies_name_only_commands_that_exist(reason):
    typed = [code for text in reason.guidance[:3] for code in re.findall(r"`([^`]+)`", text)]
    assert [command for text in typed for command in unknown_commands(text)] == []


def test_words_of_several_sets_mean_the_same():
    shared = {problem.value for problem in ProblemCode} & {code.value for code in Code}
    assert shared
    assert all(ProblemCode(word).guidance == Code(word).guidance for word in shared)


def test_no_event_or_condition_has_a_reason_of_its_own():
    written = set()
    for path in (*(ROOT / "controller").rglob("*.py"), *(ROOT / "dra/engine").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "reason=" in source else ():
            if isinstance(node, ast.keyword) and node.arg == "reason" and isinstance(node.value, ast.Constant):
                written.add(node.value.value)
    upstream = {"DeletionByDeviceTaintManager", "Conflict"}  # of a pod, and of an answer
    assert written <= upstream, "a reason belongs into one of the enums"
