"""``python -m tests.dra.engine.simulation``: one history of the machine, or a campaign of many.

python -m tests.dra.engine.simulation 4711           # one history; if it fails, the shortest way to fail
python -m tests.dra.engine.simulation --seeds 2000   # a campaign, from a first seed that is drawn and printed
"""

import argparse
import os
import sys

MODULE = "tests.dra.engine.simulation"


def main() -> None:
    """Run with the one hash seed that makes histories repeatable: sets of texts are iterated in its order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]], environment)  # noqa: S606
    _run(_parser().parse_args())


def _run(options: argparse.Namespace) -> None:
    from tests.dra.engine.simulation import campaign  # noqa: PLC0415 - everything else after the hash seed is known
    from tests.seeds import FIRST, first_seed  # noqa: PLC0415

    if options.seed is not None:
        report = campaign.run_seed(options.seed)
        print(explain_failure(options.seed) if report.violation else f"seed {options.seed}: no violation")
        sys.exit(bool(report.violation))
    first = first_seed() if options.first is None else options.first
    print(f"from seed {first}; again: {FIRST}={first} make machine ARGS='--seeds {options.seeds}'", flush=True)
    result = campaign.run_campaign(range(first, first + options.seeds), jobs=options.jobs, until=options.until)
    print(result, flush=True)
    for seed in sorted(result.violations)[: options.shown]:
        print("\n" + explain_failure(seed))
    sys.exit(bool(result.violations or result.rare))


def explain_failure(seed: int) -> str:
    """Return the shortest history by which a seed fails, and how to see it again."""
    from tests.dra.engine.simulation import histories  # noqa: PLC0415
    from tests.dra.engine.simulation.violation import Violation  # noqa: PLC0415

    short = histories.shrink_history(histories.generate_history(seed))
    try:
        histories.play_history(short)
    except Violation as violation:
        return f"seed {seed}, in short:\n{short}\nVIOLATION {violation}\nagain: make machine ARGS={seed}"
    return f"seed {seed}: fails, and not again"  # pragma: no cover - a history is repeatable


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int, nargs="?", help="play this one")
    parser.add_argument("--seeds", type=int, default=20_000, help="play so many (default: %(default)s)")
    parser.add_argument("--first", type=int, help="from this one on (default: drawn)")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: as many as cores)")
    parser.add_argument("--until", type=int, default=0, metavar="N", help="end after so many violations")
    parser.add_argument("--shown", type=int, default=1, metavar="N", help="failing seeds that are shortened and shown")
    return parser


if __name__ == "__main__":
    main()
