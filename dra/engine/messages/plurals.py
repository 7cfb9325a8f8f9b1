"""Singular forms of texts written for many (``{count} pods wait``), for use when the count is one."""

import re
from typing import Final

_ONE: Final = re.compile(
    r"(?<![\d/.,:-])(?<!of )1 (?P<kind>(?:unfinished |more )?)(?P<noun>pod|node|device|claim|tombstone)s\b"
    r"(?P<that>(?: that)?(?: still)?)(?: (?P<verb>use|wait|reference|end|have|are)\b(?: are\b(?= gone))?)?"
)

_VERBS: Final = {"use": "uses", "wait": "waits", "reference": "references", "end": "ends", "have": "has", "are": "is"}


def singularize(text: str) -> str:
    """Return the text with ``1 pods use it`` as ``1 pod uses it``."""
    return _ONE.sub(_one, text) if "1 " in text else text


def _one(found: re.Match[str]) -> str:
    verb = f" {_VERBS[found['verb']]}" if found["verb"] else ""
    gone = " is" if found[0].endswith(" are") and found["verb"] != "are" else ""
    return f"1 {found['kind']}{found['noun']}{found['that']}{verb}{gone}"
