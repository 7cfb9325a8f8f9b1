"""Records what koord-manager computes.

DRA_KOORDINATOR=FOLDER python -m tests.scenarios.koordinator.batch_resources [CASE...]
"""

import asyncio
import sys

from tests.scenarios.koordinator.batch_resources import koordinator
from tests.scenarios.koordinator.batch_resources.drafts import all_cases
from tests.scenarios.koordinator.batch_resources.outcomes import keep, recorded
from tests.scenarios.migrations.koordinator import peer

programs = peer.binaries(koordinator.MANAGER)
if programs is None:
    sys.exit(f"{peer.FOLDER} names no folder with {koordinator.MANAGER} {peer.VERSION}")
cases = [each for each in all_cases() if not sys.argv[1:] or str(each.number) in sys.argv[1:]]
with koordinator.running(programs, cases) as admin:
    records = asyncio.run(koordinator.answers(admin, cases))
kept = recorded() if sys.argv[1:] else {}
keep([*(kept | {each.case: each for each in records}).values()])
