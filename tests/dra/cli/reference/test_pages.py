from pathlib import Path

import pytest

from dra.cli.reference import pages
from dra.cli.reference.pages import main

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("path", pages.PAGES)
def test_the_page_is_what_the_code_makes(path):
    assert (ROOT / path).read_text() == pages.PAGES[path](), "run: make docs-reference"


def test_check_names_the_pages_that_have_drifted(tmp_path, capsys):
    for path in pages.TABLES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    drifted = tmp_path / "docs/reference/reasons.md"
    drifted.write_text(drifted.read_text() + "by hand\n")
    assert main(["--check"], tmp_path) == 1
    assert "reasons.md: not what the code makes; run: python -m dra.cli.reference" in capsys.readouterr().err
