"""Each rule by its number, in a sentence."""

import re
from pathlib import Path

import pytest

from dra.engine.claims.rule_descriptions import RULE_DESCRIPTIONS

ROOT = Path(__file__).parents[4]


def test_rules_are_numbered_without_a_gap_and_have_scenarios():
    assert list(RULE_DESCRIPTIONS) == list(range(1, len(RULE_DESCRIPTIONS) + 1))
    tested = {int(path.name[10:12]) for path in (ROOT / "tests/scenarios").glob("test_rule_*.py")}
    assert tested == set(RULE_DESCRIPTIONS)


@pytest.mark.parametrize("number", RULE_DESCRIPTIONS)
def test_a_rule_names_code_that_exists(number):
    parts = re.findall(r"`([a-z_/]+\.py)`(?: \(`(\w+)`\))?", RULE_DESCRIPTIONS[number].modules)
    assert parts
    for path, function in parts:
        assert f"def {function}" in (ROOT / path).read_text() if function else (ROOT / path).exists()
