from collections import Counter

import pytest

from tests.mutants.trial import ROOT, steps


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("dra/engine/claims/claim_cache.py", "tests/dra/engine/claims/test_claim_cache.py"),
        ("dra/engine/claims/lost_nodes.py", "tests/dra/engine/claims/test_lost_nodes.py"),
        ("dra/engine/reservations/accounting.py", "tests/dra/engine/reservations/test_accounting.py"),
        ("controller/claims.py", "tests/controller/test_claims.py"),
        ("dra/engine/scheduling/scheduler_cache.py", "tests/dra/engine/scheduling/test_scheduler_cache.py"),
        ("controller/reservations/reservations.py", "tests/controller/reservations/test_blind_spots.py"),
    ],
)
def test_a_trial_runs_the_nearest_tests_first_and_none_twice(file, first):
    ran = [name for step in steps(file, root=ROOT) for name in step if name.endswith(".py")]
    assert ran[0] == first
    assert set(Counter(ran).values()) == {1}
