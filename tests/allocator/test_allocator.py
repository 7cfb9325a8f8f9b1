"""kube-scheduler's own allocator answers as ours does; `make allocator` builds it (Go), and asks far more."""

import msgspec
import pytest

from dra.engine.allocator import allocator_release
from tests.allocator import cases, judge
from tests.allocator.differences import known
from tests.cluster import binaries
from tests.dra.engine.allocator import (
    strategies,
    test_constraints,
    test_partitions,
    test_pools,
    test_releases,
    test_request_policies,
    test_requests,
)

CASES = 300

TABLES = (test_constraints, test_partitions, test_pools, test_releases, test_requests, test_request_policies)
ROWS = {f"{table.__name__.rpartition('.')[2]}-{name}": row for table in TABLES for name, row in table.ROWS.items()}

STALE = "test_pools-a-pool-that-went-to-another-node"
OTHERWISE = {
    "1.37": {
        STALE,
        "test_request_policies-a-device-that-is-shared-no-more-while-shares-of-it-are-in-use",
        "test_releases-a-negative-amount-that-the-policy-would-round",
    },
    "1.38": {STALE},
}
"""Rows that upstream allocates, and that are refused here on purpose, by version of Kubernetes."""


@pytest.fixture(scope="module", params=OTHERWISE)
def version(request):
    program = binaries.allocator(request.param)
    if not program.path.is_file():
        pytest.skip(f"there is no {program.path.name}: make allocator builds it, with Go")
    return request.param


@pytest.fixture(scope="module")
def program(version):
    return binaries.build(binaries.allocator(version))


@pytest.fixture(scope="module")
def release(version):
    return allocator_release(version)


def question(row):
    """Return a row of the tables as a question to both allocators."""
    slices = [msgspec.to_builtins(each) for each in row.slices]
    return {
        "node": {"metadata": {"name": strategies.NODE, "labels": {"zone": "a"}}},
        "slices": slices,
        "classes": [msgspec.to_builtins(each) for each in row.classes.values()],
        "claims": [msgspec.to_builtins(each) for each in row.claims],
        "held": [msgspec.to_builtins(each) for each in row.held],
        "fractional": row.release.fractional,
        "lists": any(f'"{kind}s": [' in str(slices).replace("'", '"') for kind in ("int", "bool", "string", "version")),
    }


def test_the_tables(version, program, release):
    questions = [question(row) for row in ROWS.values()]
    answers = judge.upstream(program, questions)
    differing = {name: t for name, q, t in zip(ROWS, questions, answers, strict=True) if judge.ours(q, release) != t}
    assert differing.keys() == OTHERWISE[version], differing


def test_pairs_of_attributes(version, program, release):
    pairs = {
        (name, kind): question(test_constraints.row([one, other], None, distinct=kind == "distinct"))
        for name, (one, other, _, _) in test_constraints.PAIRS.items()
        for kind in ("match", "distinct")
    }
    answers = judge.upstream(program, list(pairs.values()))
    differing = {
        pair for pair, theirs in zip(pairs, answers, strict=True) if judge.ours(pairs[pair], release) != theirs
    }
    no_api_server_stores = {("a-type-that-is-not-known", "distinct")}
    assert differing == (no_api_server_stores if version == "1.37" else set())


def test_generated_questions(program, release):
    questions = [cases.question(seed) for seed in range(CASES)]
    answers = judge.upstream(program, questions)
    differing = [
        (seed, theirs)
        for seed, (asked, theirs) in enumerate(zip(questions, answers, strict=True))
        if not known(asked) and judge.ours(asked, release) != theirs
    ]
    assert differing == []
