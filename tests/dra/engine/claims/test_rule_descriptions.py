"""Each rule by its number, in a sentence."""

import re
from pathlib import Path

from dra.cli.kubectl.diagnosis.describer import HOLD_RULES
from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS
from dra.engine.diagnosis.cluster_state import AllocationHold
from tests.violations import for_each_case

ROOT = Path(__file__).parents[4]


def test_rules_are_numbered_without_a_gap_and_have_scenarios():
    assert list(RULE_DESCRIPTIONS) == list(range(1, len(RULE_DESCRIPTIONS) + 1))
    tested = {int(path.name[10:12]) for path in (ROOT / "tests/scenarios").glob("test_rule_*.py")}
    assert tested == set(RULE_DESCRIPTIONS)


def test_code_names_rules_by_their_names():
    """The numbers are for KEP-notes.md and the scenarios; a reader of the code should not need a table of them."""
    numbered = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in ("dra", "controller", "kubeletplugin", "localplane")
        for path in (ROOT / room).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(r"\b[Rr]ules? [0-9]+", line) and path.name != "filters.py"
    ]
    assert numbered == [], "filters.py numbers the rules of its own docstring"


def test_holds_name_rules_that_exist():
    assert set(HOLD_RULES.values()) <= {rule.name for rule in RULE_DESCRIPTIONS.values()}
    assert set(AllocationHold) - HOLD_RULES.keys() == {AllocationHold.RESERVATION}


@for_each_case(RULE_DESCRIPTIONS)
def test_a_rule_names_code_that_exists(number):
    parts = re.findall(r"`([a-z_/]+\.py)`(?: \(`(\w+)`\))?", RULE_DESCRIPTIONS[number].modules)
    assert parts
    for path, function in parts:
        assert f"def {function}" in (ROOT / path).read_text() if function else (ROOT / path).exists()
