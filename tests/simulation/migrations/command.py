"""The command line: one seed, or many."""

from typing import Final

from tests.simulation import campaign, seed_command
from tests.simulation.campaign import SeedReport
from tests.simulation.migrations import mutations
from tests.simulation.migrations.runner import run_scenario
from tests.simulation.migrations.scenario import draw_scenario
from tests.simulation.seed_command import Simulation


def play(seed: int) -> SeedReport:
    """Play one seed."""
    return campaign.report(run_scenario(draw_scenario(seed)))


MIGRATIONS: Final = Simulation(
    program="python -m tests.simulation.migrations",
    seeds=2_000,
    broken_rules=mutations.BY_NAME,
    draw=draw_scenario,
    run=run_scenario,
    play=play,
    outcomes=(
        "a job ends: Failed (Timeout)",
        "a job ends: Failed (Unschedulable)",
        "a job ends: Succeeded",
        "a job ends: Succeeded, with devices",
        "a pod is evicted",
    ),
)


def run() -> None:
    """Run the command line; exit with 1 after a violation, or if a kind of operation is rare."""
    seed_command.run(MIGRATIONS)
