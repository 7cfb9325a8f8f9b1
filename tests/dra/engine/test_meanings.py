import ast
import re
from pathlib import Path

from dra.engine.claims.meanings import CODES
from dra.engine.claims.reasons import Code
from dra.engine.cpus.failures import CPU_FAILURE_GUIDANCE, CpuFailureReason
from dra.engine.cpus.node_policies import NODE_LABEL_GUIDANCE, NodeLabelReason
from dra.engine.diagnosis.problem_guidance import PROBLEM_GUIDANCE
from dra.engine.diagnosis.problems import ProblemCode
from dra.engine.messages.impairments import CLAIM_IMPAIRMENTS, IMPAIRMENTS, ClaimImpairment, Impairment
from dra.engine.messages.object_sizes import OBJECT_SIZE_GUIDANCE, ObjectSizeReason
from dra.engine.migration.guidance import MIGRATION_REASON_GUIDANCE
from dra.engine.migration.reasons import MigrationReason
from dra.engine.resctrl.reasons import RESCTRL_GUIDANCE, ResctrlCode
from dra.engine.reservations.phases import ReservationReason
from dra.engine.reservations.rejections import RejectionReason
from dra.engine.reservations.reservation_guidance import REJECTION_GUIDANCE, RESERVATION_REASON_GUIDANCE
from dra.engine.suppression.notices import BATCH_POD_GUIDANCE, NoticeReason
from tests.commands import unknown_commands
from tests.violations import for_each

ROOT = Path(__file__).parents[3]
SETS = {
    Code: CODES,
    ProblemCode: PROBLEM_GUIDANCE,
    ReservationReason: RESERVATION_REASON_GUIDANCE,
    RejectionReason: REJECTION_GUIDANCE,
    MigrationReason: MIGRATION_REASON_GUIDANCE,
    Impairment: IMPAIRMENTS,
    ClaimImpairment: CLAIM_IMPAIRMENTS,
    ObjectSizeReason: OBJECT_SIZE_GUIDANCE,
    CpuFailureReason: CPU_FAILURE_GUIDANCE,
    NodeLabelReason: NODE_LABEL_GUIDANCE,
    ResctrlCode: RESCTRL_GUIDANCE,
    NoticeReason: BATCH_POD_GUIDANCE,
}
MEMBERS = [(kind, member) for kind in SETS for member in kind]


@for_each(SETS)
def test_each_reason_has_guidance(kind):
    assert set(SETS[kind]) == set(kind)


@for_each(MEMBERS)
def test_guidance_says_meaning_cause_and_remedy_in_sentences(reason):
    kind, member = reason
    guidance = SETS[kind][member]
    for text in (guidance.meaning, guidance.cause, guidance.remedy):
        assert text[0].isupper() or text[0] == "`"
        assert text.endswith(".")
        assert len(text) < 300
    assert len({guidance.meaning, guidance.cause, guidance.remedy}) == 3


@for_each(MEMBERS)
def test_remedies_name_only_commands_that_exist(reason):
    kind, member = reason
    typed = [code for text in SETS[kind][member][:3] for code in re.findall(r"`([^`]+)`", text)]
    assert [each for text in typed for each in unknown_commands(text)] == []


def test_words_of_several_sets_mean_the_same():
    shared = {trouble.value for trouble in ProblemCode} & {code.value for code in Code}
    assert shared
    assert all(PROBLEM_GUIDANCE[ProblemCode(word)] == CODES[Code(word)] for word in shared)


def test_no_event_or_condition_has_a_reason_of_its_own():
    written = set()
    for path in (*(ROOT / "controller").rglob("*.py"), *(ROOT / "dra/engine").rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "reason=" in source else ():
            if isinstance(node, ast.keyword) and node.arg == "reason" and isinstance(node.value, ast.Constant):
                written.add(node.value.value)
    upstream = {"DeletionByDeviceTaintManager", "Conflict"}  # of a pod, and of an answer
    assert written <= upstream, "a reason belongs into one of the enums"
