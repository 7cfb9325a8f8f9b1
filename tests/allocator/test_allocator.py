"""kube-scheduler's own allocator answers as ours does; `make allocator` builds it (Go), and asks far more."""

import msgspec
import pytest

from tests.allocator import cases, judge
from tests.allocator.differences import known
from tests.cluster import binaries
from tests.dra.engine.allocator import (
    strategies,
    test_constraints,
    test_partitions,
    test_pools,
    test_request_policies,
    test_requests,
)

CASES = 300

TABLES = (test_constraints, test_partitions, test_pools, test_requests, test_request_policies)
ROWS = {f"{table.__name__.rpartition('.')[2]}-{name}": row for table in TABLES for name, row in table.ROWS.items()}

OTHERWISE = {
    "test_pools-a-pool-that-went-to-another-node",
    "test_sharing-a-device-that-is-shared-no-more-while-shares-of-it-are-in-use",
}
"""Rows that upstream allocates, and that are refused here on purpose."""


@pytest.fixture(scope="module")
def program():
    found = binaries.allocator()
    if not found.path.is_file():
        pytest.skip(f"there is no {found.path.name}: make allocator builds it, with Go")
    return binaries.build(found)


def question(row):
    """Return a row of the tables as a question to both allocators."""
    slices = [msgspec.to_builtins(each) for each in row.slices]
    return {
        "node": {"metadata": {"name": strategies.NODE, "labels": {"zone": "a"}}},
        "slices": slices,
        "classes": [msgspec.to_builtins(each) for each in row.classes.values()],
        "claims": [msgspec.to_builtins(each) for each in row.claims],
        "held": [msgspec.to_builtins(each) for each in row.held],
        "fractional": row.fractional,
        "lists": any(f'"{kind}s": [' in str(slices).replace("'", '"') for kind in ("int", "bool", "string", "version")),
    }


def test_the_tables(program):
    questions = [question(row) for row in ROWS.values()]
    answers = judge.upstream(program, questions)
    differing = {name: t for name, q, t in zip(ROWS, questions, answers, strict=True) if judge.ours(q) != t}
    assert differing.keys() == OTHERWISE, differing


def test_pairs_of_attributes(program):
    pairs = {
        (name, kind): question(test_constraints.row([one, other], None, distinct=kind == "distinct"))
        for name, (one, other, _, _) in test_constraints.PAIRS.items()
        for kind in ("match", "distinct")
    }
    answers = judge.upstream(program, list(pairs.values()))
    differing = {pair for pair, theirs in zip(pairs, answers, strict=True) if judge.ours(pairs[pair]) != theirs}
    assert differing == {("a-type-that-is-not-known", "distinct")}  # which no API server stores


def test_generated_questions(program):
    questions = [cases.question(seed) for seed in range(CASES)]
    answers = judge.upstream(program, questions)
    differing = [
        (seed, theirs)
        for seed, (asked, theirs) in enumerate(zip(questions, answers, strict=True))
        if not known(asked) and judge.ours(asked) != theirs
    ]
    assert differing == []
