"""Writes SHA256SUMS over the files of a release, in the form that ``sha256sum --check`` reads.

The command is ``python -m release.checksums --into dist``.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from release.plan import Artefacts
from release.project import read_project


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path, names: Iterable[str]) -> str:
    """Return the lines of SHA256SUMS; raises FileNotFoundError for a file that was not built."""
    return "".join(f"{sha256(folder / name)}  {name}\n" for name in sorted(names))


def main() -> int:
    """Write the file and print its path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release")
    folder = parser.parse_args().into
    made = Artefacts(version=read_project().version)
    path = folder / made.checksums
    try:
        path.write_text(checksums(folder, (*made.attested, made.provenance)), encoding="utf-8")
    except FileNotFoundError as error:
        sys.stderr.write(f"error: {error.filename}: not there; run the steps before this one\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
