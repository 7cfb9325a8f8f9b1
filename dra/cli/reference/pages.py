"""Which pages are generated, and from what."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from dra.cli.reference import commands, configuration, definitions, limits, metrics, reasons, rules

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/explanation/rules.md": rules.page,
    "docs/explanation/rules-chain.svg": rules.chain,
    "docs/explanation/rules-pod.svg": rules.life,
    "docs/explanation/rules-reservation.svg": rules.phases,
    "docs/reference/commands.md": commands.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/crds.md": definitions.page,
    "docs/reference/limits.md": limits.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/reasons.md": reasons.page,
}
"""Path in the repository → what it should contain."""


def differing(root: Path) -> Iterator[str]:
    """Yield the pages that are not what the code makes."""
    for path, page in PAGES.items():
        file = root / path
        if not file.exists() or file.read_text(encoding="utf-8") != page():
            yield path


def write(root: Path) -> None:
    """Write them all."""
    for path, page in PAGES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(), encoding="utf-8")
