"""Records what Koordinator places: DRA_KOORDINATOR=FOLDER python -m tests.scenarios.koordinator.placement [SET...]."""

import asyncio
import sys

from tests.scenarios.koordinator.placement import koordinator
from tests.scenarios.koordinator.placement.outcomes import keep, recorded
from tests.scenarios.koordinator.placement.sets import all_sets
from tests.scenarios.migrations.koordinator import peer

programs = peer.binaries()
if programs is None:
    sys.exit(f"{peer.FOLDER} names no folder with koord-scheduler {peer.VERSION}")
chosen = [each for each in all_sets() if not sys.argv[1:] or str(each.number) in sys.argv[1:]]
with koordinator.running(programs) as admin:
    records = asyncio.run(koordinator.play_all(admin, chosen))
kept = recorded() if sys.argv[1:] else {}
keep([*(kept | {each.set: each for each in records}).values()])
