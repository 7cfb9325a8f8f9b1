"""What a session with kubectl looked like, without what differs each time: so that two servers can be compared."""

import re
from typing import Final

_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
_UID: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LONG_TIME: Final = r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"

_VOLATILE: Final = (
    (re.compile(_UID), "UID"),
    (re.compile(_TIME), "TIME"),
    (re.compile(_LONG_TIME), "TIME"),
    (re.compile(r'(resourceVersion"?: ?)"\d+"'), r'\1"VERSION"'),
    (re.compile(r"(Resource Version: +)\d+"), r"\1VERSION"),
    (re.compile(r"(remainingItemCount\"?: )\d+"), r"\1N"),
    (re.compile(r"https://[\w.]+:\d+"), "SERVER"),
    (re.compile(r"(?:/[\w.-]+)+/(LIVE|MERGED)-\d+"), r"\1"),  # of kubectl diff, below TMPDIR
    (re.compile(r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), ""),
    (re.compile(r"(kube-api-access-)[a-z0-9]{5}"), r"\1XXXXX"),
    (re.compile(r"(?<![\w.-])(\d+[smhd])+(?![\w.-])(?! *\|)"), "AGE"),
    (re.compile("<unknown>"), "AGE"),
    (re.compile(r'("serverAddress":)"[\d.:]+"'), r'\1"ADDRESS"'),
)
_WIDE: Final = re.compile(r"(?<=\S) {2,}(?=\S)|(?<=\S) +$", re.MULTILINE)


def normal(text: str) -> str:
    """Return an output of kubectl as it would be at any other time; columns lose their widths."""
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return _WIDE.sub("  ", text).replace("  \n", "\n").rstrip()


def entry(command: str, *, out: str, errors: str, code: int) -> str:
    """Return one command with what came of it."""
    parts = [f"$ {command}", normal(out)]
    if errors.strip():
        parts.append("! " + normal(errors).replace("\n", "\n! "))
    if code:
        parts.append(f"= {code}")
    return "\n".join(part for part in parts if part)
