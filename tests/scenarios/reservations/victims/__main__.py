"""Records what kube-scheduler alone chooses: python -m tests.scenarios.reservations.victims."""

import asyncio

from tests.scenarios.reservations.victims.cases import Side, all_cases
from tests.scenarios.reservations.victims.outcomes import Record, digest, keep
from tests.scenarios.reservations.victims.playing import play

cases = all_cases()
outcomes = asyncio.run(play(cases))
keep(Record(case=each.number, outcome=outcomes[each.number][Side.STOCK], digest=digest(each)) for each in cases)
different = [number for number, each in outcomes.items() if each[Side.STOCK] != each[Side.OURS]]
print(f"{len(cases)} cases; with our extender different: {different}")
