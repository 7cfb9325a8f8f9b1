"""Builds the sdist, and the wheel from the sdist, twice: ``make dist``.

Users get the wheel that the sdist makes, on any machine. The two wheels must be equal to the byte, and equal to the
wheel of the tree: a file that only the tree has would be missing for whoever builds from the sdist.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

_PRINT: Final = sys.stdout.write


class DifferentWheelsError(RuntimeError):
    """Two builds of one source differ."""


def build(into: Path) -> tuple[Path, Path]:
    """Write the sdist and its wheel into a folder and return both; raise DifferentWheelsError."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dra-reserve-dist-") as scratch:
        sdist = _hatchling(ROOT, "sdist", Path(scratch, "sdist"))
        wheels = [_hatchling(ROOT, "wheel", Path(scratch, "tree"))]
        for name in ("first", "second"):
            with tarfile.open(sdist) as archive:
                archive.extractall(Path(scratch, name, "source"), filter="data")
            (source,) = Path(scratch, name, "source").iterdir()
            wheels.append(_hatchling(source, "wheel", Path(scratch, name, "dist")))
        if len({wheel.read_bytes() for wheel in wheels}) != 1:
            raise DifferentWheelsError(f"{wheels[0].name}: two builds of the same source differ")
        return Path(shutil.copy(sdist, into)), Path(shutil.copy(wheels[0], into))


def _hatchling(source: Path, target: str, into: Path) -> Path:
    """Build one target of a source tree and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=source, env=_environment(), check=True, capture_output=True, timeout=300)  # noqa: S603 - our own arguments
    (built,) = into.iterdir()
    return built


def _environment() -> dict[str, str]:
    """Return the environment of a build: nothing of it may enter the files but the time of the commit."""
    return os.environ | {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH") or _commit_time()}


def _commit_time() -> str:
    git = shutil.which("git")
    if git is None:
        return "0"
    command = [git, "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - likewise
    return done.stdout.strip() or "0"


def main() -> int:
    """Build both files, and print where they are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="folder for the files")
    try:
        for path in build(parser.parse_args().into):
            _PRINT(f"{path}\n")
    except DifferentWheelsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"error: {error}\n{(error.stderr or b'').decode(errors='replace')}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
