"""Writes the generated pages of docs/reference, or with ``--check`` reports the pages that are out of date."""

import sys
from pathlib import Path

from dra.cli.reference import pages


def main(arguments: list[str], root: Path) -> int:
    """Write or compare the pages; return the exit code."""
    if arguments != ["--check"]:
        pages.write_pages(root)
        return 0
    wrong = list(pages.outdated_pages(root))
    for path in wrong:
        sys.stderr.write(f"error: {path}: not what the code makes; run: python -m dra.cli.reference\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
