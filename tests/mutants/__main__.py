"""``python -m tests.mutants``."""

import argparse
import os
import sys

from tests.mutants import campaign
from tests.seeds import first_seed


def main() -> None:
    """Draw mutants, try them, and report those that survive."""
    asked = _parser().parse_args()
    seed = first_seed() if asked.seed is None else asked.seed
    if asked.line:
        chosen = [drawn for place in asked.line for drawn in campaign.of_line(place)]
    else:
        chosen = campaign.drawn(seed, asked.count, folders=tuple(asked.folder or campaign.FOLDERS))
    again = " ".join(["--seed", str(seed), "--count", str(asked.count), *(f"--folder {f}" for f in asked.folder or ())])
    print(f"seed {seed}; again: make mutants ARGS='{again} --minutes {asked.minutes}'", flush=True)
    for told in campaign.run(chosen, seed=seed, seconds=60 * asked.minutes, jobs=asked.jobs):
        if isinstance(told, campaign.Figures):
            print(told)
            sys.exit(bool(told.tried == 0))
        drawn, verdict = told
        outcome = f"found by {verdict.by}" if verdict.found else "SURVIVED"
        print(f"{verdict.seconds:6.1f} s  {drawn}: {outcome}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the draw (default: drawn, and printed)")
    parser.add_argument("--count", type=int, default=200, help="mutants (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin none after so long (default: %(default)s)")
    parser.add_argument("--folder", action="append", help="draw lines from there (default: dra/engine, controller)")
    parser.add_argument("--line", action="append", metavar="FILE:LINE", help="try all mutants of this line instead")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants that are tried at a time")
    return parser


if __name__ == "__main__":
    main()
