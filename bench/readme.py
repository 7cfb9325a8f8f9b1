"""The tables of README.md: each bench puts its result between marks of its own."""

from pathlib import Path
from typing import Final

README: Final = Path(__file__).with_name("README.md")


def write(text: str, *, mark: str) -> None:
    """Put a result between ``<!-- mark -->`` and ``<!-- /mark -->``."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    before, opened, rest = README.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (opened and closed):
        raise SystemExit(f"{README}: no place for the result; it goes between {begin.strip()} and {end.strip()}")
    README.write_text(f"{before}{begin}{text}\n{end}{after}", encoding="utf-8")
