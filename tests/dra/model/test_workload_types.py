"""Each workload type has one row, and what the rows say agrees."""

import pytest

from dra.cel.object_rules import CompiledRule
from dra.model.workload_types import RELEASE_RULES, WORKLOAD_TYPES
from tests.violations import for_each


def test_no_resource_and_no_alias_stands_in_two_rows():
    names = [name for each in WORKLOAD_TYPES for name in {str(each.resource), *each.aliases}]
    assert len(names) == len(set(names))


@for_each(WORKLOAD_TYPES, name=lambda row: str(row.resource))
def test_a_row_is_complete(row):
    assert bool(row.release_rule) == bool(row.end)
    assert bool(row.version) == row.controls_pods
    assert not (row.controls_pods and row.pods_belong_to)


@pytest.mark.parametrize("rule", RELEASE_RULES.values(), ids=list(RELEASE_RULES))
def test_a_built_in_rule_compiles(rule):
    CompiledRule(rule)
