"""The command line: one seed, or many."""

import argparse
import sys
from collections.abc import Sequence

from tests.seeds import FIRST, first_seed
from tests.simulation import campaign, mutations
from tests.simulation.runner import RunResult, run_scenario
from tests.simulation.scenario import Scenario, draw_scenario
from tests.simulation.shrink import shrink_scenario


def run(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for; ends with 1 if anything was violated, or a kind of decision is rare."""
    asked = _parser().parse_args(arguments)
    if asked.mutation:
        mutations.BY_NAME[asked.mutation](setattr)
    if asked.seed is None:
        first = first_seed() if asked.first is None else asked.first
        print(f"from seed {first}; again: {FIRST}={first} make simulate ARGS='--seeds {asked.seeds}'", flush=True)
        figures = campaign.run_campaign(
            range(first, first + asked.seeds), jobs=asked.jobs, until_violations=asked.until
        )
        print(figures, flush=True)
        for seed in sorted(figures.violations)[: asked.shown]:
            print("\n" + explain_failure(seed, extra=_mutation_argument(asked)))
        sys.exit(bool(figures.violations or figures.rare))
    if asked.only is not None:
        numbers = tuple(map(int, filter(None, asked.only.split(","))))
        drawn = draw_scenario(asked.seed).only(numbers)
        sys.exit(_print_result(drawn, run_scenario(drawn)))
    outcome = run_scenario(draw_scenario(asked.seed))
    if outcome.violation and not asked.whole:
        print(explain_failure(asked.seed, extra=_mutation_argument(asked)))
        sys.exit(1)
    sys.exit(_print_result(draw_scenario(asked.seed), outcome))


def explain_failure(seed: int, *, extra: str = "") -> str:
    """Return the shortest history by which a seed fails, and how to see it again."""
    whole = draw_scenario(seed)
    numbers, outcome = shrink_scenario(whole)
    short = whole.only(numbers)
    kept = ",".join(map(str, numbers))
    return "\n".join(
        (
            f"seed {seed}: {outcome.violation}",
            f"{len(numbers)} of {len(whole.decisions)} decisions are needed:",
            str(short),
            "what was written:",
            str(outcome.chronicle),
            f"VIOLATION {outcome.violation}",
            f"again: python -m tests.simulation {seed} --only {kept}{extra}",
            f"whole: python -m tests.simulation {seed} --whole{extra}",
        )
    )


def _print_result(drawn: Scenario, outcome: RunResult) -> bool:
    print(drawn)
    print("what was written:")
    print(outcome.chronicle)
    faults = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items()))
    print(f"seed {outcome.seed}: {outcome.steps} steps, {outcome.seconds:.0f} virtual s; faults: {faults or 'none'}")
    print(f"digest {outcome.digest}")
    print(f"VIOLATION {outcome.violation}" if outcome.violation else "no violation")
    return bool(outcome.violation)


def _mutation_argument(asked: argparse.Namespace) -> str:
    return f" --mutation {asked.mutation}" if asked.mutation else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="play this one, and tell all of it")
    parser.add_argument("--only", metavar="1,2,…", help="with these of its decisions")
    parser.add_argument("--whole", action="store_true", help="do not shorten a history that fails")
    parser.add_argument("--seeds", type=int, default=20_000, help="play so many (default: %(default)s)")
    parser.add_argument("--first", type=int, help="from this one on (default: drawn)")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: as many as cores)")
    parser.add_argument("--until", type=int, default=0, metavar="N", help="end after so many violations")
    parser.add_argument("--shown", type=int, default=1, metavar="N", help="failing seeds that are shortened and shown")
    parser.add_argument("--mutation", choices=sorted(mutations.BY_NAME), help="break this rule first")
    return parser
