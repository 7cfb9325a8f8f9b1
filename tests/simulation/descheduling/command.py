"""The command line: one seed, or many."""

from typing import Final

from tests.simulation import campaign, seed_command
from tests.simulation.campaign import SeedReport
from tests.simulation.descheduling import mutations
from tests.simulation.descheduling.runner import run_scenario
from tests.simulation.descheduling.scenario import draw_scenario
from tests.simulation.seed_command import Simulation


def play(seed: int) -> SeedReport:
    """Play one seed."""
    return campaign.report(run_scenario(draw_scenario(seed)))


DESCHEDULING: Final = Simulation(
    program="python -m tests.simulation.descheduling",
    seeds=1_000,
    broken_rules=mutations.BY_NAME,
    draw=draw_scenario,
    run=run_scenario,
    play=play,
    outcomes=("migrated", "succeeded", "failed"),
)


def run() -> None:
    """Run the command line; exit with 1 after a violation, or if a kind of operation is rare."""
    seed_command.run(DESCHEDULING)
