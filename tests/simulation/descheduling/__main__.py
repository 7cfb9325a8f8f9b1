"""``python -m tests.simulation.descheduling``."""

import os
import sys


def main() -> None:
    """Run with the one hash seed that makes runs repeatable: sets of texts are iterated in its order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(  # noqa: S606 - this very program
            sys.executable, [sys.executable, "-m", "tests.simulation.descheduling", *sys.argv[1:]], environment
        )
    from tests.simulation.descheduling.command import run  # noqa: PLC0415 - all else after the hash seed is known

    run()


if __name__ == "__main__":
    main()
