"""Records what Koordinator leaves: DRA_KOORDINATOR=FOLDER python -m tests.scenarios.migrations.koordinator [CASE]."""

import asyncio
import sys

from tests.scenarios.migrations.koordinator import peer, recording
from tests.scenarios.migrations.koordinator.cases import CASES, name_of

programs = peer.binaries()
if programs is None:
    sys.exit(f"{peer.FOLDER} names no folder with koord-scheduler and koord-descheduler {peer.VERSION}")
chosen = [each for each in CASES if name_of(each) in sys.argv[1:]] if sys.argv[1:] else CASES
with peer.running(programs) as admin:
    records = asyncio.run(recording.play_all(admin, chosen))
failed = {name: each for name, each in records.items() if isinstance(each, BaseException)}
recording.keep({name: each for name, each in records.items() if not isinstance(each, BaseException)})
for name, error in failed.items():
    print(f"{name}: {error!r}", file=sys.stderr)
sys.exit(bool(failed))
