"""The command line: one seed, or many."""

import argparse
import sys
from collections.abc import Iterable, Sequence

from tests.seeds import FIRST, first_seed
from tests.simulation import campaign, mutations
from tests.simulation.runner import RunResult, run_scenario
from tests.simulation.scenario import Scenario, draw_scenario
from tests.simulation.shrink import shrink_scenario


def run(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks for; ends with 1 if anything was violated, or a kind of operation is rare."""
    options = _parser().parse_args(arguments)
    if options.mutation:
        mutations.BY_NAME[options.mutation](mutations.replace_attribute)
    if options.seed is None:
        first = first_seed() if options.first is None else options.first
        print(f"from seed {first}; again: {FIRST}={first} make simulate ARGS='--seeds {options.seeds}'", flush=True)
        totals = campaign.run_campaign(
            range(first, first + options.seeds),
            play=campaign.run_seed,
            kinds=campaign.operation_kinds() if campaign.is_judged(options.seeds, until=options.until) else (),
            jobs=options.jobs,
            until_violations=options.until,
        )
        print(totals, flush=True)
        for seed in sorted(totals.violations)[: options.shown]:
            print("\n" + explain_failure(seed, extra=_mutation_argument(options)))
        sys.exit(bool(totals.violations or totals.rare))
    if options.only is not None:
        numbers = tuple(map(int, filter(None, options.only.split(","))))
        drawn = draw_scenario(options.seed).only(numbers)
        sys.exit(_print_result(drawn, run_scenario(drawn)))
    result = run_scenario(draw_scenario(options.seed))
    if result.violation and not options.whole:
        print(explain_failure(options.seed, extra=_mutation_argument(options)))
        sys.exit(1)
    sys.exit(_print_result(draw_scenario(options.seed), result))


def explain_failure(seed: int, *, extra: str = "") -> str:
    """Return the shortest history by which a seed fails, and how to see it again."""
    whole = draw_scenario(seed)
    numbers, result = shrink_scenario(whole)
    short = whole.only(numbers)
    kept = ",".join(map(str, numbers))
    return "\n".join(
        (
            f"seed {seed}: {result.violation}",
            f"{len(numbers)} of {len(whole.operations)} operations are needed:",
            str(short),
            "what was written:",
            str(result.write_log),
            f"VIOLATION {result.violation}",
            f"again: python -m tests.simulation {seed} --only {kept}{extra}",
            f"whole: python -m tests.simulation {seed} --whole{extra}",
        )
    )


def _print_result(drawn: Scenario, result: RunResult) -> bool:
    print(drawn)
    print("what was written:")
    print(result.write_log)
    faults = ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()))
    print(f"seed {result.seed}: {result.steps} steps, {result.seconds:.0f} virtual s; faults: {faults or 'none'}")
    print(f"digest {result.digest}")
    print(f"VIOLATION {result.violation}" if result.violation else "no violation")
    return bool(result.violation)


def _mutation_argument(options: argparse.Namespace) -> str:
    return f" --mutation {options.mutation}" if options.mutation else ""


def _parser() -> argparse.ArgumentParser:
    return seed_parser("python -m tests.simulation", seeds=20_000, broken_rules=mutations.BY_NAME)


def seed_parser(program: str, *, seeds: int, broken_rules: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of a simulation's command line; `seeds` is how many are played by default."""
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="play this one, and tell all of it")
    parser.add_argument("--only", metavar="1,2,…", help="with these of its operations")
    parser.add_argument("--whole", action="store_true", help="do not shorten a history that fails")
    parser.add_argument("--seeds", type=int, default=seeds, help="play so many (default: %(default)s)")
    parser.add_argument("--first", type=int, help="from this one on (default: drawn)")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: as many as cores)")
    parser.add_argument("--until", type=int, default=0, metavar="N", help="end after so many violations")
    parser.add_argument("--shown", type=int, default=1, metavar="N", help="failing seeds that are shortened and shown")
    parser.add_argument("--mutation", choices=sorted(broken_rules), help="break this rule first")
    return parser
