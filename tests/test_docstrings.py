"""The mechanical part of the rule on docstrings: each one is read without the code, or another sentence, beside it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = "dra", "localplane", "controller", "kubeletplugin"

LEADING = re.compile(r"(who|whom|whose|what|where|which|of|how|those|them|they|it|its|ones)\b", re.IGNORECASE)
"""Openings without a subject: relative clauses, and pronouns whose noun stands somewhere else."""

PRONOUN = re.compile(r"(it|its|them|they|their|those|that|ones)\b", re.IGNORECASE)
"""Pronouns that mean something outside of the sentence if they are among its first words after the verb."""

DIALECT = re.compile(
    r"\b(thought away|to be had|nobody minds|away with it|no more\b(?! than)|is told\b|are told\b|is dear\b|anew\b)",
    re.IGNORECASE,
)
"""Words of an earlier private vocabulary."""

FEWEST = 4
"""Words of a first sentence."""

PROPERTY_FEWEST = 3


def violation(docstring: str) -> str:
    """Return what is wrong with the first sentence of a docstring; empty if nothing is."""
    first = re.split(r"(?<=[.!?])\s|\n\n", docstring.strip(), maxsplit=1)[0].replace("\n", " ")
    words = first.split()
    if len(words) < FEWEST:
        return f"has {len(words)} words, not {FEWEST}"
    if found := LEADING.match(first):
        return f"begins with {found.group()!r}"
    if any(PRONOUN.fullmatch(word.strip(",.;:")) and (word[-1] in ",.;:" or word != "that") for word in words[1:2]):
        return f"has {words[1]!r} for a noun that stands elsewhere"
    if found := DIALECT.search(first):
        return f"says {found.group()!r}"
    return ""
