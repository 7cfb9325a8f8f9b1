"""The command line: one seed, or many."""

import sys
from collections.abc import Sequence
from typing import Final

from tests.seeds import FIRST, first_seed
from tests.simulation import campaign
from tests.simulation.campaign import SAMPLED_SEEDS, SeedReport
from tests.simulation.command import seed_parser
from tests.simulation.migrations import mutations
from tests.simulation.migrations.runner import run_scenario
from tests.simulation.migrations.scenario import Scenario, draw_scenario
from tests.simulation.mutations import replace_attribute
from tests.simulation.runner import RunResult
from tests.simulation.shrink import shrink_scenario

OUTCOMES: Final = (
    "a job ends: Failed (Timeout)",
    "a job ends: Failed (Unschedulable)",
    "a job ends: Succeeded",
    "a job ends: Succeeded, with devices",
    "a pod is evicted",
)
"""Outcomes without which a campaign has shown nothing, beside the operations."""


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 after a violation, or if a kind of operation is rare."""
    parser = seed_parser("python -m tests.simulation.migrations", seeds=2_000, broken_rules=mutations.BY_NAME)
    options = parser.parse_args(arguments)
    if options.mutation:
        mutations.BY_NAME[options.mutation](replace_attribute)
    if options.seed is not None:
        drawn = draw_scenario(options.seed)
        if options.only is not None:
            drawn = drawn.only(tuple(map(int, filter(None, options.only.split(",")))))
        result = run_scenario(drawn)
        if result.violation and options.only is None and not options.whole:
            print(_explanation(options.seed))
            sys.exit(1)
        sys.exit(_print_result(drawn, result))
    first = first_seed() if options.first is None else options.first
    print(f"from seed {first}; again: {FIRST}={first} python -m tests.simulation.migrations --seeds {options.seeds}")
    totals = campaign.run_campaign(
        range(first, first + options.seeds),
        play=play,
        kinds=kinds(),
        jobs=options.jobs,
        until_violations=options.until,
    )
    print(totals, flush=True)
    for seed in sorted(totals.violations)[: options.shown]:
        print("\n" + _explanation(seed))
    sys.exit(bool(totals.violations or totals.rare))


def play(seed: int) -> SeedReport:
    """Play one seed."""
    return campaign.report(run_scenario(draw_scenario(seed)))


def kinds() -> tuple[str, ...]:
    """Return the kinds of operations that seeds draw, and the outcomes that a campaign must have."""
    drawn = {operation.kind for seed in range(SAMPLED_SEEDS) for operation in draw_scenario(seed).operations}
    return tuple(sorted({*drawn, *OUTCOMES}))


def _explanation(seed: int) -> str:
    """Return the shortest history by which a seed fails, and how to see that history again."""
    whole = draw_scenario(seed)
    numbers, result = shrink_scenario(whole, run=run_scenario)
    kept = ",".join(map(str, numbers))
    return "\n".join(
        (
            f"seed {seed}: {result.violation}",
            f"{len(numbers)} of {len(whole.operations)} operations are needed:",
            str(whole.only(numbers)),
            "what was written:",
            str(result.write_log),
            f"VIOLATION {result.violation}",
            f"again: python -m tests.simulation.migrations {seed} --only {kept}",
        )
    )


def _print_result(drawn: Scenario, result: RunResult) -> bool:
    print(drawn)
    print("what was written:")
    print(result.write_log)
    effects = ", ".join(f"{name} {count}" for name, count in sorted(result.effects.items()))
    print(f"seed {result.seed}: {result.steps} steps, {result.seconds:.0f} virtual s; {effects}")
    print(f"digest {result.digest}")
    print(f"VIOLATION {result.violation}" if result.violation else "no violation")
    return bool(result.violation)
