"""A hook of mkdocs: links out of docs/ lead to a copy of the file within the site, so that none of them is dead.

GitHub shows the pages as they stand; so in them a manifest is ``../deploy/…``. On the site the same link leads to
``files/deploy/…``, and a link to a folder or to Markdown outside of docs/ to that text.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[2]
_LINK: Final = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")


def _targets(page: Path, text: str) -> dict[str, Path]:
    """Return the links of a page that lead out of docs/, and where they lead."""
    found = {}
    for link, _ in _LINK.findall(text):
        target = (page.parent / link).resolve()
        if not target.is_relative_to(ROOT / "docs") and target.is_relative_to(ROOT) and target.exists():
            found[link] = target.relative_to(ROOT)
    return found


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401 - mkdocs' own
    """Add what pages link to."""
    added: set[Path] = set()
    for file in list(files.documentation_pages()):
        page = Path(file.abs_src_path or "")
        added |= set(_targets(page, page.read_text(encoding="utf-8")).values())
    for target in sorted(added):
        source = ROOT / target
        text = "\n".join(sorted(each.name for each in source.iterdir())) if source.is_dir() else source.read_text()
        files.append(File.generated(config, _address(target), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ANN401 - mkdocs' own
    """Let the links lead to the copies."""
    del config, files
    here = Path(page.file.abs_src_path)
    targets = _targets(here, markdown)

    def moved(match: re.Match[str]) -> str:
        target = targets.get(match[1])
        if target is None:
            return match[0]
        start = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(_address(target), start)})"

    return _LINK.sub(moved, markdown)


def _address(target: Path) -> str:
    """Return where the copy is; its name ends so that browsers show it."""
    return f"files/{target}.txt"
