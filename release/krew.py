"""Builds the archive of kubectl dra for a platform: the launcher, our wheel and the wheels of the locked packages.

The command is ``python -m release.krew --into dist --platform linux-amd64``.

krew unpacks an archive and links one program of it; nothing is installed or downloaded afterwards. So the archive has
the packages for each supported Python: wheels that are the same for all go to ``lib/any``, the others to ``lib/cp311``
and so on. pip selects the wheels by the hashes of requirements/runtime.txt, for any platform on any machine, and files
are taken as they are, so the same commit makes the same archive everywhere.

Left out is what kubectl dra never imports: packages that only a node's plugin needs, and files of `LEFT_OUT`.
"""

import argparse
import re
import stat
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from release import launcher
from release.archives import MODE_PROGRAM, Entry, write_archive
from release.plan import KREW_PLATFORMS, Artefacts
from release.project import ROOT, read_project

PYTHONS: Final = tuple(f"3.{minor}" for minor in range(launcher.OLDEST, launcher.NEWEST + 1))

WHEEL_PLATFORMS: Final[Mapping[str, tuple[str, ...]]] = {
    "linux-amd64": tuple(f"{tag}_x86_64" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")),
    "linux-arm64": tuple(f"{tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")),
    "darwin-arm64": ("macosx_11_0_arm64", "macosx_11_0_universal2", "macosx_10_9_universal2"),
}
"""Platform → tags of its wheels: glibc 2.28 or later, macOS 11 or later."""

LEFT_OUT: Final = re.compile(
    r"kubernetes/(aio/)?client/(api|models)/(?!__init__)"  # a class for each kind: 130 MB, and imported lazily
    r"|bazel-project/"  # tests in the wheel of cel-expr-python
    r"|cel_expr_python/ext/ext_proto\."  # extensions of protobuf messages; expressions of Kubernetes have none
)

_BLOCK: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_DATA: Final = re.compile(r"^[^/]+\.data/(?P<scheme>[^/]+)/(?P<path>.*)$")

LIBRARY_FOLDER: Final = "lib"


class ConflictError(RuntimeError):
    """Two packages have different files of one name."""


def locked_requirements(text: str, *, without: Iterable[str]) -> str:
    """Return a file of pip-compile without some packages, with the hashes of all others."""
    names = {name.lower() for name in without}
    return "".join(match[0] for match in _BLOCK.finditer(text) if match["name"].lower() not in names)


def node_packages(pyproject: str) -> tuple[str, ...]:
    """Return the names of the packages that only a node's plugin needs: the extra ``node``."""
    extra = tomllib.loads(pyproject)["project"]["optional-dependencies"]["node"]
    return tuple(re.split(r"[<>=!~ \[;]", requirement, maxsplit=1)[0] for requirement in extra)


def library_folders(wheels: Mapping[str, Iterable[str]]) -> Mapping[str, str]:
    """Return the folder of each wheel: ``any`` if all versions of Python use the wheel, else that of its version.

    `wheels` maps a version such as 3.11 to file names.
    """
    chosen = {version: set(names) for version, names in wheels.items()}
    shared = set.intersection(*chosen.values())
    own = {name: f"cp{version.replace('.', '')}" for version, names in chosen.items() for name in names - shared}
    return own | dict.fromkeys(shared, "any")


def wheel_entries(wheel: Path) -> Iterator[tuple[str, Entry]]:
    """Yield the files that a wheel installs as packages, without its scripts and `LEFT_OUT`."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = member.filename
            if data := _DATA.match(name):
                if data["scheme"] not in {"purelib", "platlib"}:
                    continue
                name = data["path"]
            if not member.is_dir() and not LEFT_OUT.match(name):
                mode = stat.S_IMODE(member.external_attr >> 16) & stat.S_IXUSR
                yield name, Entry(archive.read(member), MODE_PROGRAM) if mode else Entry(archive.read(member))


def archive_entries(wheels: Iterable[tuple[str, Path]], *, root: Path = ROOT) -> Mapping[str, Entry]:
    """Return the files of an archive; `wheels` are pairs of library folder and wheel. Raises ConflictError."""
    program = Entry(Path(launcher.__file__).read_bytes(), MODE_PROGRAM)
    entries = dict.fromkeys(launcher.MODULES, program)
    entries |= {name: Entry((root / name).read_bytes()) for name in ("LICENSE", "NOTICE")}
    for folder, wheel in wheels:
        for name, entry in wheel_entries(wheel):
            path = f"{LIBRARY_FOLDER}/{folder}/{name}"
            if entries.setdefault(path, entry) != entry:
                raise ConflictError(f"{path}: {wheel.name} and another package have different files of this name")
    return entries


def download(requirements: Path, *, platform: str, python: str, into: Path) -> tuple[str, ...]:
    """Download the wheels of a platform and a version of Python; return their file names.

    Raises subprocess.CalledProcessError if a package has no such wheel, or another hash.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    command += [word for tag in WHEEL_PLATFORMS[platform] for word in ("--platform", tag)]
    folder = into / python
    subprocess.run([*command, "--dest", str(folder), "--requirement", str(requirements)], check=True, timeout=600)  # noqa: S603 - our own arguments
    return tuple(sorted(path.name for path in folder.iterdir()))


def build(platform: str, *, into: Path) -> Path:
    """Build the archive of a platform and return its path; the folder must have our wheel."""
    made = Artefacts(version=read_project().version)
    ours = into / made.package[0]
    locked = (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8")
    extra = node_packages((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="dra-reserve-krew-") as scratch:
        requirements = Path(scratch, "locked.txt")
        requirements.write_text(locked_requirements(locked, without=extra), encoding="utf-8")
        downloads = Path(scratch, "wheels")
        names = {
            version: download(requirements, platform=platform, python=version, into=downloads) for version in PYTHONS
        }
        folders = library_folders(names)
        wheels = {name: downloads / version / name for version, files in names.items() for name in files}
        path = into / made.krew_archive(platform)
        chosen = [("any", ours), *((folders[name], wheel) for name, wheel in sorted(wheels.items()))]
        write_archive(path, archive_entries(chosen))
    return path


def main() -> int:
    """Build an archive and print its path."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, required=True, help="folder of the release, with our wheel")
    parser.add_argument("--platform", choices=KREW_PLATFORMS, required=True)
    given = parser.parse_args()
    try:
        sys.stdout.write(f"{build(given.platform, into=given.into)}\n")
    except (ConflictError, FileNotFoundError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
