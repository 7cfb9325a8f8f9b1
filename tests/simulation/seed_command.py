"""The command line of the simulations beside the first: one seed, or many."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.seeds import FIRST, first_seed
from tests.simulation import campaign
from tests.simulation.campaign import SAMPLED_SEEDS, SeedReport
from tests.simulation.command import seed_parser
from tests.simulation.mutations import Mutation, replace_attribute
from tests.simulation.runner import RunResult
from tests.simulation.shrink import shrink_scenario


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What differs between simulations."""

    program: str
    """The command by which a seed is played, ``python -m …``."""
    seeds: int
    """Seeds of a campaign by default."""
    broken_rules: Mapping[str, Mutation]
    draw: Callable[[int], Any]
    """Returns the scenario of a seed."""
    run: Callable[[Any], RunResult]
    """Plays a scenario."""
    play: Callable[[int], SeedReport]
    """Plays a seed; a function of a module, which other processes can be given."""
    outcomes: tuple[str, ...]
    """Outcomes without which a campaign has shown nothing, beside the operations."""

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of operations that seeds draw, and the outcomes that a campaign must have."""
        drawn = {operation.kind for seed in range(SAMPLED_SEEDS) for operation in self.draw(seed).operations}
        return tuple(sorted({*drawn, *self.outcomes}))


def run(simulation: Simulation, arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 after a violation, or if a kind of operation is rare."""
    parser = seed_parser(simulation.program, seeds=simulation.seeds, broken_rules=simulation.broken_rules)
    options = parser.parse_args(arguments)
    if options.mutation:
        simulation.broken_rules[options.mutation](replace_attribute)
    if options.seed is not None:
        drawn = simulation.draw(options.seed)
        if options.only is not None:
            drawn = drawn.only(tuple(map(int, filter(None, options.only.split(",")))))
        result = simulation.run(drawn)
        if result.violation and options.only is None and not options.whole:
            print(_explanation(simulation, options.seed))
            sys.exit(1)
        sys.exit(_print_result(drawn, result))
    first = first_seed() if options.first is None else options.first
    print(f"from seed {first}; again: {FIRST}={first} {simulation.program} --seeds {options.seeds}")
    totals = campaign.run_campaign(
        range(first, first + options.seeds),
        play=simulation.play,
        kinds=simulation.kinds() if campaign.is_judged(options.seeds, until=options.until) else (),
        jobs=options.jobs,
        until_violations=options.until,
    )
    print(totals, flush=True)
    for seed in sorted(totals.violations)[: options.shown]:
        print("\n" + _explanation(simulation, seed))
    sys.exit(bool(totals.violations or totals.rare))


def _explanation(simulation: Simulation, seed: int) -> str:
    """Return the shortest history by which a seed fails, and how to see that history again."""
    whole = simulation.draw(seed)
    numbers, result = shrink_scenario(whole, run=simulation.run)
    kept = ",".join(map(str, numbers))
    return "\n".join(
        (
            f"seed {seed}: {result.violation}",
            f"{len(numbers)} of {len(whole.operations)} operations are needed:",
            str(whole.only(numbers)),
            "what was written:",
            str(result.write_log),
            f"VIOLATION {result.violation}",
            f"again: {simulation.program} {seed} --only {kept}",
        )
    )


def _print_result(drawn: Any, result: RunResult) -> bool:
    print(drawn)
    print("what was written:")
    print(result.write_log)
    effects = ", ".join(f"{name} {count}" for name, count in sorted(result.effects.items()))
    print(f"seed {result.seed}: {result.steps} steps, {result.seconds:.0f} virtual s; {effects}")
    print(f"digest {result.digest}")
    print(f"VIOLATION {result.violation}" if result.violation else "no violation")
    return bool(result.violation)
