"""A hook of mkdocs: what pages link to outside of docs/ is part of the site, so that no link is dead.

GitHub shows the pages as they stand; so in them a manifest is ``../deploy/…``. On the site the pages of the examples
and other Markdown files become pages, at the path that they have in the repository. Every other file becomes a copy
that browsers show: the link leads to ``files/deploy/….txt``.
"""

import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
_LINK: Final = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_SHOWN: Final = {".yaml": "yaml", ".json": "json", ".py": "python"}
"""The files of an example that its page shows, and the language of each."""

_FRONT: Final = ROOT / "README.md"
"""The front page of the repository; the site has one of its own at the same address."""


def on_config(config: Any) -> Any:  # noqa: ANN401 - mkdocs' own
    """Show the version of the package at the foot of each page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config.copyright = f"dra-reserve {project['version']}, Apache License 2.0"
    config.repo_url = config.repo_url or project.get("urls", {}).get("Repository", "")
    return config


def on_files(files: Files, config: Any) -> Files:  # noqa: ANN401 - mkdocs' own
    """Add the examples, and everything outside of docs/ that pages link to."""
    known = {Path(file.abs_src_path or "") for file in files.documentation_pages()}
    waiting = [*known, *sorted((ROOT / "examples").rglob("README.md"))]
    added: set[Path] = set()
    while waiting:
        source = waiting.pop()
        if source in added:
            continue
        if source not in known:
            added.add(source)
        if source in known or _is_page(source):
            waiting += _outside(source)
    for source in sorted(added):
        files.append(_file(source, config))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ANN401 - mkdocs' own
    """Let the links lead to the pages and copies of the site."""
    del config, files
    here = _source(page.file.src_uri)
    start = posixpath.dirname(page.file.src_uri) or "."

    def moved(match: re.Match[str]) -> str:
        target = _target(here, match[1])
        if target is None:
            return match[0]
        anchor = match[2] if match[2] and target.suffix == ".md" else ""
        return f"]({posixpath.relpath(_address(target), start)}{anchor})"

    text = _LINK.sub(moved, markdown)
    return text + _manifests(here.parent) if here.is_relative_to(ROOT / "examples") else text


def _manifests(folder: Path) -> str:
    """Return the files of an example as the last section of its page."""
    shown = [f"\n## Files\n\n[All examples]({posixpath.relpath(ROOT / 'examples', folder)}/README.md)\n"]
    for path in sorted(folder.iterdir()):
        language = _SHOWN.get(path.suffix)
        if language:
            shown.append(f"\n### {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8').rstrip()}\n```\n")
    return "".join(shown) if len(shown) > 1 else ""


def _outside(source: Path) -> list[Path]:
    """Return the files outside of docs/ to which a page links."""
    targets = [_target(source, link) for link, _ in _LINK.findall(source.read_text(encoding="utf-8"))]
    return [target for target in targets if target is not None and not target.is_relative_to(ROOT / "docs")]


def _target(source: Path, link: str) -> Path | None:
    """Return the file of the repository to which a link leads, if it is one."""
    target = (source.parent / link).resolve()
    return target if target.is_relative_to(ROOT) and target.exists() else None


def _is_page(source: Path) -> bool:
    return source.suffix == ".md" and source != _FRONT


def _address(source: Path) -> str:
    """Return the path of a file of the repository within the site's sources."""
    if source.is_relative_to(ROOT / "docs"):
        return str(source.relative_to(ROOT / "docs"))
    path = str(source.relative_to(ROOT))
    return path if _is_page(source) else f"files/{path}.txt"


def _source(address: str) -> Path:
    """Return the file of the repository of which a page is made."""
    inside = ROOT / "docs" / address
    return inside if inside.exists() else ROOT / address


def _file(source: Path, config: Any) -> File:  # noqa: ANN401 - mkdocs' own
    if source.is_dir():
        text = "\n".join(sorted(path.name for path in source.iterdir()))
    else:
        text = source.read_text(encoding="utf-8")
    file = File.generated(config, _address(source), content=text)
    if _is_page(source):
        file.edit_uri = f"../{source.relative_to(ROOT)}"
    return file
