"""What must hold of scheduling gates that two parties write: each removes its own, and no write undoes another's.

A merge patch carries the whole list of gates. A list that was read before the other party's write would put that
party's gate back, or take it away too early, and revert nothing else only by luck.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from tests.scenarios import steps
from tests.scenarios.claims import revision
from tests.scenarios.objects import GATE

if TYPE_CHECKING:
    from tests.scenarios.history import WatchHistory

Json = dict[str, Any]

_WRITTEN_BY_QUEUES: Final = ("labels", "annotations")


def assert_gates_only_leave(pods: WatchHistory) -> int:
    """Assert it of each write on each pod; return how many writes removed our gate."""
    ungated = 0
    for versions in pods.by_object().values():
        for before, after in pairwise(version.object for version in versions):
            at = f"pod {after['metadata']['name']} at {revision(after)}"
            had, has = set(steps.gates(before)), set(steps.gates(after))
            assert has <= had, f"{at}: gates {has - had} were put back"
            if GATE in had - has:
                ungated += 1
                assert had - has == {GATE}, f"{at}: gates of others went with ours: {had - has}"
                _assert_nothing_was_reverted(before, after, at)
    return ungated


def _assert_nothing_was_reverted(before: Json, after: Json, at: str) -> None:
    """Assert that the write which removed our gate left alone what a queue writes: metadata and the node selector."""
    for field in _WRITTEN_BY_QUEUES:
        assert before["metadata"].get(field) == after["metadata"].get(field), f"{at}: {field} changed"
    assert before["spec"].get("nodeSelector") == after["spec"].get("nodeSelector"), f"{at}: the node selector changed"
