"""Writes the generated pages of docs/reference, or with ``--check`` reports the pages that are out of date."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from dra.cli.reference import (
    command_help,
    configuration,
    crds,
    descheduler_plugins,
    limits,
    metrics,
    problems,
    reasons,
    rules,
)

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/explanation/rules.md": rules.page,
    "docs/explanation/rules-chain.svg": rules.draw_rule_chain,
    "docs/explanation/rules-pod.svg": rules.draw_pod_stages,
    "docs/explanation/rules-reservation.svg": rules.draw_reservation_phases,
    "docs/reference/commands.md": command_help.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/crds.md": crds.page,
    "docs/reference/descheduler-plugins.md": descheduler_plugins.page,
    "docs/reference/limits.md": limits.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/reasons.md": reasons.page,
}
"""Path in the repository → function that returns the content."""

TABLES: Final[Mapping[str, Callable[[str], str]]] = {
    "KEP-notes.md": rules.updated_notes,
    "docs/how-to/kubectl-dra.md": problems.updated_page,
}
"""Path in the repository → function that returns the page with its generated table replaced."""


def _generated_pages(root: Path) -> Iterator[tuple[str, str]]:
    yield from ((path, page()) for path, page in PAGES.items())
    yield from ((path, update((root / path).read_text(encoding="utf-8"))) for path, update in TABLES.items())


def outdated_pages(root: Path) -> Iterator[str]:
    """Yield the pages that differ from the generated content."""
    for path, content in _generated_pages(root):
        file = root / path
        if not file.exists() or file.read_text(encoding="utf-8") != content:
            yield path


def write_pages(root: Path) -> None:
    """Write all generated pages."""
    for path, content in _generated_pages(root):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def main(arguments: list[str], root: Path) -> int:
    """Write or compare the pages; return the exit code."""
    if arguments != ["--check"]:
        write_pages(root)
        return 0
    wrong = list(outdated_pages(root))
    for path in wrong:
        sys.stderr.write(f"error: {path}: not what the code makes; run: python -m dra.cli.reference\n")
    return 1 if wrong else 0
