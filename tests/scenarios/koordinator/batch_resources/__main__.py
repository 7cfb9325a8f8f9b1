"""Records what koord-manager computes: DRA_KOORDINATOR=FOLDER python -m tests.scenarios.koordinator.batch_resources."""

import asyncio
import sys

from tests.scenarios.koordinator.batch_resources import koordinator
from tests.scenarios.koordinator.batch_resources.drafts import all_cases
from tests.scenarios.koordinator.batch_resources.outcomes import keep
from tests.scenarios.migrations.koordinator import peer

programs = peer.binaries(koordinator.MANAGER)
if programs is None:
    sys.exit(f"{peer.FOLDER} names no folder with {koordinator.MANAGER} {peer.VERSION}")
cases = all_cases()
with koordinator.running(programs, cases) as admin:
    keep(asyncio.run(koordinator.answers(admin, cases)))
