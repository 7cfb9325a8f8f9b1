"""The built site as a reader uses it: links that are clicked, and the search of its index.

The search of the browser (lunr, as Material for MkDocs configures it) finds sections in which every word occurs,
completes the last letters of a word, and ranks a word in a title above any number of words in the text. `Site.search`
does the same.
"""

import html
import json
import re
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin

STOP_WORDS = frozenset("a an and are do does for how i in is it my not of on or the to what when which why".split())  # noqa: SIM905 - a sentence


@dataclass(frozen=True)
class Section:
    """One entry of the index: the words of a page, or of a section of a page."""

    address: str
    title: list[str]
    text: list[str]

    @property
    def page(self) -> str:
        return urldefrag(self.address).url


class Site:
    """A built site."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = json.loads((folder / "search/search_index.json").read_text(encoding="utf-8"))
        self._separator = re.compile(index["config"]["separator"])
        self.sections = [self._section(each) for each in index["docs"]]

    def served(self, page: str) -> str:
        """Return a page as it is served."""
        return (self._folder / page).read_text(encoding="utf-8")

    def search(self, typed: str) -> list[str]:
        """Return the pages that the search shows for some words, the best first."""
        words = [word for word in self._words(typed) if word not in STOP_WORDS]
        ranked = []
        for number, section in enumerate(self.sections):
            title, text = section.title, section.text
            counts = [
                (sum(each.startswith(word) for each in title), sum(each.startswith(word) for each in text))
                for word in words
            ]
            if counts and all(in_title or in_text for in_title, in_text in counts):
                in_titles = sum(min(in_title, 1) for in_title, _ in counts)
                density = sum(in_text for _, in_text in counts) / (20 + len(text))
                ranked.append((-in_titles, len(title) if in_titles else 0, -density, number, section.page))
        return list(dict.fromkeys(page for *_, page in sorted(ranked)))

    def browser_search(self, queries: list[str]) -> dict[str, list[str]]:
        """Return the same by the program that the browser runs; needs node."""
        command = ["node", str(Path(__file__).with_name("search.cjs")), str(self._folder), *queries]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60)
        return dict(json.loads(line) for line in done.stdout.splitlines())

    def clicks(self, start: str, *, most: int) -> dict[str, int]:
        """Return the pages that links in the text of pages reach, with the number of clicks; menus are not used."""
        reached, edge = {start: 0}, [start]
        for count in range(1, most + 1):
            edge = [to for page in edge for to in self._links(page) if to not in reached]
            reached |= dict.fromkeys(edge, count)
        return reached

    def links(self, page: str) -> list[str]:
        """Return where the links in the text of a page lead within the site, with their anchors."""
        reader = _ArticleLinks()
        reader.feed(self.served(page))
        found = [urljoin(page, link) for link in reader.found if not re.match(r"[a-z]+:|#", link)]
        return [link for link in found if urldefrag(link).url.endswith(".html")]

    def _links(self, page: str) -> list[str]:
        return list(dict.fromkeys(urldefrag(link).url for link in self.links(page)))

    def _section(self, entry: dict[str, str]) -> Section:
        text = self._words(re.sub(r"<[^>]*>", " ", entry["text"]))
        return Section(entry["location"], self._words(html.unescape(entry["title"])), text)

    def _words(self, text: str) -> list[str]:
        return [word.strip(".,;:?!'\"") for word in self._separator.split(text.lower()) if word.strip(".,;:?!'\"")]


class _ArticleLinks(HTMLParser):
    """Collects the links in the text of a page, without menus, header and footer."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self._inside = self._inside or tag == "article"
        classes = (known.get("class") or "").split()
        if (
            self._inside
            and tag == "a"
            and known.get("href")
            and "headerlink" not in classes
            and "md-content__button" not in classes
        ):
            self.found.append(known["href"] or "")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "article"
