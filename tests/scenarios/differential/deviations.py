"""Where we differ from stock on purpose, each with its reason; and how a script is known to come to such a place.

Scripts end there and are counted. Whatever is not named here must be equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.differential.mirror import Sight
    from tests.scenarios.differential.play import Player


def lists_finished_pod(sight: Sight, player: Player) -> bool:
    """Tell whether the controller has listed a pod that had ended (k/k#141274).

    Stock does, and where nothing else is in the list it then takes back the allocation together with that entry, else it
    loops. Ours lists no pod that has ended: an allocation that nobody uses stays.
    """
    ours = player.revisions["resourceclaims"]
    return any(revision not in ours for revision, _ in sight.listed_after_end())
