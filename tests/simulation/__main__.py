"""``python -m tests.simulation``."""

import os
import sys


def main() -> None:
    """Run with the one hash seed that makes runs repeatable: sets of texts are iterated in its order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], environment)  # noqa: S606
    from tests.simulation.command import run  # noqa: PLC0415 - everything else after the hash seed is known

    run()


if __name__ == "__main__":
    main()
