"""Nothing is published under our name: no text, page or script tells to install the name from an index.

Whoever registers the name first would run code on the machines of all who follow such a line. A wheel file, a clone and
a manifest of a release are installed by their paths.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.violations import for_each_case

ROOT = Path(__file__).parents[1]

INSTALLERS = re.compile(
    r"\b(?:(?:pip3?|pipx|uv|uv tool|uv pip|poetry|conda) +(?:install|download|add|run|inject)|uvx) +"
    r"(?P<words>[^`\n;|&#]*)"
)
OUR_NAME = re.compile(r"""(?<![\w./-])dra[-_]reserve(?:\[[\w,]+\])?(?=["'`\s]|[=<>~!]=|$)""")
KREW = re.compile(r"\bkrew (?:install|upgrade) (?!--manifest)[^`\n]*\bdra\b")
BREW = re.compile(r"\b(?:brew|apt|apt-get|dnf|npm|cargo|snap) install [^`\n]*\bdra[-_]reserve\b")


def offences(text):
    """The parts of a text that install our name from an index."""
    for found in INSTALLERS.finditer(text):
        if OUR_NAME.search(found["words"]):
            yield found.group().strip()
    for pattern in (KREW, BREW):
        yield from (found.group() for found in pattern.finditer(text))


def tracked_texts():
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        path = ROOT / name
        if path == Path(__file__) or not path.is_file() or path.is_symlink():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_installs_our_name_from_an_index():
    assert [(name, each) for name, text in tracked_texts() for each in offences(text)] == []


@for_each_case(
    [
        "pip install dra-reserve",
        "pip3 install --upgrade dra_reserve==0.1.0",
        ".venv/bin/pip install 'dra-reserve[node]'",
        "python -m pip download dra-reserve -d wheels",
        "pipx install dra-reserve",
        "uv tool install dra-reserve",
        "uvx dra-reserve local up",
        "kubectl krew install dra",
        "brew install dra-reserve",
    ]
)
def test_a_planted_line_is_found(text):
    assert list(offences(f"Run `{text}` first."))


@pytest.mark.parametrize(
    "text",
    [
        "pip install dist/dra_reserve-*.whl",
        "pip install './dra_reserve-0.1.0-py3-none-any.whl[node]'",
        "pip install --no-deps -e .",
        "kubectl krew install --manifest=dra.yaml",
        "helm install dra-reserve deploy/helm/dra-reserve",
        "pip install grpcio nvidia-ml-py",
    ],
)
def test_a_path_is_none(text):
    assert list(offences(f"Run `{text}` first.")) == []
