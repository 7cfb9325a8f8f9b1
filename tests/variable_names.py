"""``python -m tests.variable_names``: lower the recorded numbers of variables that are named ``found`` or ``each``.

Such a variable says how a value came, not what it is: ``claim``, ``node`` or ``refusal`` can be read without the line
above. `variable_names.txt` has for each file the number of scopes that bind one, as the compiler's table of symbols has
them: functions, comprehensions, classes, modules. Files that are not listed have none. The numbers only fall;
``--admit`` raises them, for a file that was moved or a branch that is older than the rule.
"""

import argparse
import re
import subprocess
import symtable
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RECORD: Final = ROOT / "tests" / "variable_names.txt"
VAGUE: Final = frozenset({"each", "found"})
_CANDIDATE: Final = re.compile(rf"\b({'|'.join(sorted(VAGUE))})\b")


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each scope that binds a vague name, and the name: by an assignment, a loop, a parameter."""
    if _CANDIDATE.search(source):
        yield from _bound(symtable.symtable(source, "module", "exec"))


def _bound(scope: symtable.SymbolTable) -> Iterator[tuple[int, str]]:
    for name in sorted(VAGUE.intersection(scope.get_identifiers())):
        symbol = scope.lookup(name)
        if symbol.is_assigned() or symbol.is_parameter():
            yield scope.get_lineno(), name
    for inner in scope.get_children():
        yield from _bound(inner)


def recorded() -> dict[str, int]:
    """Return the recorded numbers by path."""
    lines = (line.split(maxsplit=1) for line in RECORD.read_text().splitlines())
    return {path: int(number) for number, path in lines}


def counted() -> dict[str, int]:
    """Return the numbers of this tree by path; files without vague names are left out."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    paths = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    numbers = {path: len(list(vague_names((ROOT / path).read_text()))) for path in paths if (ROOT / path).exists()}
    return {path: number for path, number in sorted(numbers.items()) if number}


def write(numbers: Mapping[str, int]) -> None:
    """Record the numbers."""
    RECORD.write_text("".join(f"{number} {path}\n" for path, number in numbers.items()))


def main() -> None:
    """Record the numbers of this tree where they have fallen, and with ``--admit`` all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--admit", action="store_true", help="record numbers that have risen, too")
    admit = parser.parse_args().admit
    before = recorded()
    now = counted()
    write(now if admit else {path: min(number, before[path]) for path, number in now.items() if path in before})
    print(f"{sum(before.values())} → {sum(recorded().values())}")  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()
