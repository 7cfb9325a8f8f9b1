"""Every block of commands that a page tells the reader to type is run by a test, or says why it cannot be."""

import ast
from pathlib import PurePath

from tests.pages.reading import ROOT, blocks, pages
from tests.pages.register import BY_THE_READER, ELSEWHERE, FOLLOWED, NOBODY_ANSWERS, keys, place
from tests.violations import for_each, for_each_case


@for_each(pages())
def test_of_each_block_of_a_page_it_is_known_who_runs_it(page):
    unknown = [(block.number, block.section, block.commands) for block in blocks(page) if not place(page, block)]
    assert unknown == [], "follow it, or say in register.py which test reads and runs it, or why none can"


def test_nothing_is_registered_that_no_page_has():
    known = {key for page in pages() for key in keys(page)}
    assert (ELSEWHERE.keys() | BY_THE_READER.keys() | {page.path for page in FOLLOWED}) - known == set()
    assert ELSEWHERE.keys() & BY_THE_READER.keys() == set()
    commands = [command for page in FOLLOWED for block in blocks(page.path) for command in block.runnable]
    idle = [pattern.pattern for pattern in NOBODY_ANSWERS if not any(map(pattern.search, commands))]
    assert idle == [], "no followed page has such a command"


@for_each_case([(key.partition("#")[0], test) for key, test in ELSEWHERE.items()])
def test_who_runs_a_page_elsewhere_reads_it(page, test):
    tree = ast.parse((ROOT / test).read_text())
    told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    names = {page, PurePath(page).name, PurePath(page).stem}
    assert [text for text in told if text in names], f"{test} does not name {page}"


@for_each([*BY_THE_READER.values(), *NOBODY_ANSWERS.values()])
def test_what_is_not_run_here_has_a_reason_that_holds(reason):
    assert len(reason) > 10
    named = [word.rstrip(".,") for word in reason.split() if word.startswith("tests/")]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_pages_are_where_a_reader_looks_for_them():
    assert {path.name for path in (ROOT / "docs").iterdir()} == {
        "index.md", "tutorial", "how-to", "reference", "explanation", "design", "runbooks"
    }  # fmt: skip
    menu = (ROOT / "mkdocs.yml").read_text()
    assert [page for page in pages() if page.startswith("docs/") and page.removeprefix("docs/") not in menu] == []
