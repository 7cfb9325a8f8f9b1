from collections import Counter

import pytest

from tests.mutants.trial import ROOT, steps


@pytest.mark.parametrize(
    ("file", "first"),
    [
        ("dra/engine/world.py", "tests/dra/engine/test_world.py"),
        ("dra/engine/claims/lost.py", "tests/dra/engine/claims/test_lost.py"),
        ("dra/engine/reservations/books.py", "tests/dra/engine/reservations/test_books.py"),
        ("controller/claims.py", "tests/controller/test_claims.py"),
        ("controller/extender/picture.py", "tests/controller/extender/test_picture.py"),
        ("controller/reservations/loop.py", "tests/controller/reservations/test_blind_spots.py"),
    ],
)
def test_a_trial_runs_the_nearest_tests_first_and_none_twice(file, first):
    ran = [name for step in steps(file, root=ROOT) for name in step if name.endswith(".py")]
    assert ran[0] == first
    assert set(Counter(ran).values()) == {1}
