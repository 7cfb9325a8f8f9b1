"""The list of generated pages, and the function that generates each page."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from dra.cli.reference import command_help, configuration, crds, limits, metrics, reasons, rules

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/explanation/rules.md": rules.page,
    "docs/explanation/rules-chain.svg": rules.draw_rule_chain,
    "docs/explanation/rules-pod.svg": rules.draw_pod_stages,
    "docs/explanation/rules-reservation.svg": rules.draw_reservation_phases,
    "docs/reference/commands.md": command_help.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/crds.md": crds.page,
    "docs/reference/limits.md": limits.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/reasons.md": reasons.page,
}
"""Path in the repository → function that returns the content."""


def outdated_pages(root: Path) -> Iterator[str]:
    """Yield the pages that differ from the generated content."""
    for path, page in PAGES.items():
        file = root / path
        if not file.exists() or file.read_text(encoding="utf-8") != page():
            yield path


def write_pages(root: Path) -> None:
    """Write all generated pages."""
    for path, page in PAGES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(), encoding="utf-8")
