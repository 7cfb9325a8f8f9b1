"""Reads a page: its blocks of commands, each with what the page shows below it.

Commands stand in blocks of ``sh`` (or ``bash`` and the like); a block without a language right after one is what it
prints. In a block of ``console`` both stand together, commands behind ``$``. A command that ends with
``# not run here: WHY`` is one that nobody but the reader can run.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHELLS = frozenset({"sh", "bash", "shell", "zsh"})
TAKES = re.compile(r"  # not run here: takes .+$")
NOT_RUN = re.compile(r"  # not run here: \S.+$")


@dataclass(frozen=True)
class Block:
    """Commands, one a line, and what the page shows below them, if it does."""

    number: int
    section: str
    commands: tuple[str, ...]
    shown: str = ""

    def patient(self) -> "Block":
        """Return it with what only takes its time."""
        return replace(self, commands=tuple(TAKES.sub("", command) for command in self.commands))

    @property
    def runnable(self) -> tuple[str, ...]:
        return tuple(command for command in self.commands if not NOT_RUN.search(command))


def pages() -> list[str]:
    """Every page that the reader may follow, as paths in the tree."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("README.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order; what follows no command is no block."""
    found: list[Block] = []
    section, language, text = "", None, []
    for line in (ROOT / page).read_text().splitlines():
        fence = re.fullmatch(r"\s*```(\w*)(.*)", line)
        if language is None and fence:
            language, text = fence[1], []
        elif language is None:
            section = line.lstrip("# ") if line.startswith("#") else section
        elif not fence:
            text.append(line)
        else:
            number = len(found) + 1
            if language in SHELLS:
                found.append(Block(number, section, _commands(text)))
            elif language == "console":
                typed = [line.removeprefix("$ ") for line in text if line.startswith("$ ")]
                printed = "".join(f"{line}\n" for line in text if not line.startswith("$ "))
                found.append(Block(number, section, _commands(typed), printed))
            elif not language and found and not found[-1].shown:
                last = found[-1]
                found[-1] = Block(last.number, last.section, last.commands, "".join(f"{line}\n" for line in text))
            language = None
    return found


def _commands(lines: list[str]) -> tuple[str, ...]:
    """Join what goes on over lines."""
    return tuple(filter(None, re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()))
