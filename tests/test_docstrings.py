"""The mechanical part of the rule on docstrings: each first sentence is understood without the code beside it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.violations import for_each_case

ROOT = Path(__file__).parents[1]
PRODUCT = "dra", "localplane", "controller", "kubeletplugin"
GENERATED = re.compile(r"_pb2\.pyi?$")

LEADING = re.compile(r"(who|whom|whose|what|where|which|of|how|those|them|they|it|its|ones)\b", re.IGNORECASE)
"""Openings without a subject: relative clauses, and pronouns whose noun stands somewhere else."""

PRONOUN = re.compile(r"(it|its|them|they|their|those|that|ones)\b", re.IGNORECASE)
"""Pronouns that mean a noun outside of the sentence if they are its second word."""

DIALECT = re.compile(
    r"\b(thought away|to be had|nobody minds|away with it|no more\b(?! than)|is told\b|are told\b|is dear\b|anew\b)",
    re.IGNORECASE,
)
"""Words of a private vocabulary that the tree once had."""

FEWEST = 4
"""Words of a first sentence."""


def violation(docstring: str) -> str:
    """Return what is wrong with the first sentence of a docstring; empty if nothing is."""
    first = re.split(r"(?<=[.!?])\s|\n\n", docstring.strip(), maxsplit=1)[0].replace("\n", " ")
    words = first.split()
    if len(words) < FEWEST:
        return f"has {len(words)} words, not {FEWEST}"
    if found := LEADING.match(first):
        return f"begins with {found.group()!r}"
    second = words[1]
    if PRONOUN.fullmatch(second.strip(",.;:")) and (second[-1] in ",.;:" or second != "that"):
        return f"has {second!r} for a noun that stands elsewhere"
    if found := DIALECT.search(first):
        return f"says {found.group()!r}"
    return ""


def violations(source: str) -> Iterator[str]:
    """Yield the violations of a module with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found = violation(docstring) if (docstring := ast.get_docstring(node)) else ""
            if found:
                yield f"{getattr(node, 'lineno', 1)}: {getattr(node, 'name', 'the module')} {found}: {docstring}"


def test_each_docstring_is_understood_without_the_code():
    files = (path for package in PRODUCT for path in (ROOT / package).rglob("*.py") if not GENERATED.search(path.name))
    assert [f"{path.relative_to(ROOT)}:{each}" for path in files for each in violations(path.read_text())] == []


@for_each_case(
    [
        pytest.param("Dispatches extender verbs to their handlers.", "", id="good"),
        pytest.param("Return one line that tells what a write changes.", "", id="a-relative-clause"),
        pytest.param("Answers them.", "2 words", id="short"),
        pytest.param("What a claim asks for, ready for the search.", "begins with 'What'", id="no-subject"),
        pytest.param("Of reservations: the pods inside of each.", "begins with 'Of'", id="a-genitive"),
        pytest.param("Whether it is bound to a node.", "'it'", id="a-pronoun"),
        pytest.param("Return the pods that are to be had.", "to be had", id="dialect"),
        pytest.param("Good words stand in the first line.\n\nWhat follows is not looked at.", "", id="first-sentence"),
    ]
)
def test_a_violation_is_found(docstring, found):
    assert found in violation(docstring)
    assert bool(violation(docstring)) == bool(found)
    planted = f'def f():\n    """{docstring}"""\n'
    assert bool(list(violations(planted))) == bool(found)
