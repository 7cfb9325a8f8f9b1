"""The command line: one seed, or many."""

from typing import Final

from tests.simulation import campaign, seed_command
from tests.simulation.campaign import SeedReport
from tests.simulation.colocation import mutations
from tests.simulation.colocation.runner import run_scenario
from tests.simulation.colocation.scenario import draw_scenario
from tests.simulation.seed_command import Simulation


def play(seed: int) -> SeedReport:
    """Play one seed."""
    return campaign.report(run_scenario(draw_scenario(seed)))


COLOCATION: Final = Simulation(
    program="python -m tests.simulation.colocation",
    seeds=2_000,
    broken_rules=mutations.BY_NAME,
    draw=draw_scenario,
    run=run_scenario,
    play=play,
    outcomes=(
        "batch resources are offered",
        "batch resources are reduced",
        "batch resources are reduced to what is held",
        "batch resources are withdrawn",
    ),
)


def run() -> None:
    """Run the command line; exit with 1 after a violation, or if a kind of operation is rare."""
    seed_command.run(COLOCATION)
