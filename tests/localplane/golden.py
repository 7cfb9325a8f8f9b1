"""The recorded exchanges of a real kube-apiserver 1.36, and what it means to be equal to one.

The recorder cut long bodies somewhere in the middle and lists behind the third element. So a body is read as far as it
goes: a `Cut` value is the beginning of what was there. Uids, times, versions and generated names differ from run to
run and are compared by their shape.
"""

import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl

FILE = Path(__file__).parent / "golden" / "apiserver-1.36.md"

KEPT = 3
"""Elements of a list that the recorder kept."""


@dataclass(frozen=True)
class Exchange:
    name: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object
    """Cut bodies are None: they must be made up."""
    status: int
    warning: str = ""
    content_type: str = ""
    answer: str = field(default="", repr=False)


_HEAD = re.compile(
    r"`(?P<method>\w+) (?P<path>[^?`]*)(?:\?(?P<query>[^`]*))?`\s*(?P<headers>\{.*?\})?\s*(?:body=(?P<body>.*))?"
)
_ANSWER = re.compile(r"-> (?P<status>\d+) CT=(?P<type>.*?)\s*(?:Warning=(?P<warning>.*))?")


def exchanges():
    """Return all exchanges by name, in the order in which they happened."""
    found = {}
    for section in FILE.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, request, answer, *rest = section.split("\n")
        head, status = _HEAD.fullmatch(request.strip()), _ANSWER.fullmatch(answer.strip())
        fences = [index for index, line in enumerate(rest) if line == "```"]
        found[name] = Exchange(
            name=name,
            method=head["method"],
            path=head["path"],
            query=_query(head["query"] or ""),
            headers=json.loads(head["headers"] or "{}"),
            body=_whole(head["body"]) if head["body"] else None,
            status=int(status["status"]),
            warning=status["warning"] or "",
            content_type=status["type"],
            answer="\n".join(rest[fences[0] + 1 : fences[-1]]),
        )
    return found


def _query(text):
    return dict(parse_qsl(text, keep_blank_values=True))


def _whole(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


class CutObject(dict):
    """The first fields of an object."""


class CutList(list):
    """The first elements of a list."""


class CutText(str):
    """The beginning of a text."""

    __slots__ = ()


class _End(Exception):  # noqa: N818 - an end is no error
    def __init__(self, value=None, *, some=False):
        super().__init__()
        self.value = value
        self.some = some


_SPACE = re.compile(r"\s*")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SCALAR = re.compile(r"[^\s,\]}]+")


def read(text):
    """Return the JSON value that a text begins with, as much of it as there is."""
    try:
        return _value(text, 0)[0]
    except _End as end:
        return end.value


def _value(text, at):
    at = _SPACE.match(text, at).end()
    match text[at : at + 1]:
        case "":
            raise _End
        case "{":
            return _object(text, at + 1)
        case "[":
            return _list(text, at + 1)
        case '"':
            found = _TEXT.match(text, at)
            if found is None:
                raise _End(CutText(_unescaped(text[at + 1 :])), some=True)
            return json.loads(found[0]), found.end()
        case _:
            found = _SCALAR.match(text, at)
            if found.end() == len(text):
                raise _End
            return json.loads(found[0]), found.end()


def _unescaped(text):
    for end in range(len(text), max(0, len(text) - 8), -1):
        try:
            return json.loads(f'"{text[:end]}"')
        except ValueError:
            continue
    return ""


def _object(text, at):
    fields = {}
    while True:
        at = _SPACE.match(text, at).end()
        if text[at : at + 1] == "}":
            return fields, at + 1
        if text[at : at + 1] == ",":
            at += 1
            continue
        key = _TEXT.match(text, at)
        if key is None or text[key.end() : key.end() + 1] != ":":
            raise _End(CutObject(fields), some=True)
        name = json.loads(key[0])
        try:
            fields[name], at = _value(text, key.end() + 1)
        except _End as end:
            if end.some:
                fields[name] = end.value
            raise _End(CutObject(fields), some=True) from None


def _list(text, at):
    items = []
    while True:
        at = _SPACE.match(text, at).end()
        if text[at : at + 1] == "]":
            return items, at + 1
        if text[at : at + 1] == ",":
            at += 1
            continue
        try:
            item, at = _value(text, at)
            items.append(item)
        except _End as end:
            if end.some:
                items.append(end.value)
            raise _End(CutList(items), some=True) from None


VARYING = {
    "uid": "UID",
    "resourceVersion": "REVISION",
    "creationTimestamp": "TIME",
    "deletionTimestamp": "TIME",
    "lastTransitionTime": "TIME",
    "serverAddress": "ADDRESS",
}
LEFT_OUT = {"managedFields", "storageVersionHash", "description"}
"""What nobody compares: bookkeeping, and the sentences of Kubernetes' own documentation."""

_NUMBERS = re.compile(r"(?<=current: )\d+|(?<=resource version: )\d+ \(\d+\)")
_GENERATED = re.compile(r"\b([a-z]-)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_AGE = re.compile(r"\d+[smhd]")


def normal(value, key=""):  # noqa: PLR0911 - a table
    """Return a value without what differs from run to run, cut as the recorder cuts."""
    if isinstance(value, dict):
        kept = {name: normal(inner, name) for name, inner in value.items() if name not in LEFT_OUT}
        return CutObject(kept) if isinstance(value, CutObject) else kept
    if isinstance(value, list):
        items = [normal(inner, "cell" if key == "cells" else "") for inner in value[:KEPT]]
        return CutList(items) if isinstance(value, CutList) else items
    if isinstance(value, str) and value:
        if key in VARYING:
            return VARYING[key]
        if key == "continue":
            return normal(json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))))
        if key == "cell" and _AGE.fullmatch(value):
            return "AGE"
        plain = _GENERATED.sub(r"\1*", _NUMBERS.sub("N", value))
        return CutText(plain) if isinstance(value, CutText) else plain
    return "REVISION" if key == "rv" else value


def begins(found, wanted):
    """Whether a value is what was recorded, or begins with it where the record was cut."""
    match wanted:
        case CutObject():
            return isinstance(found, dict) and all(
                name in found and begins(found[name], inner) for name, inner in wanted.items()
            )
        case dict():
            return isinstance(found, dict) and found.keys() == wanted.keys() and begins(found, CutObject(wanted))
        case CutList():
            return isinstance(found, list) and all(map(begins, found, wanted)) and len(found) >= len(wanted)
        case list():
            return isinstance(found, list) and len(found) == len(wanted) and all(map(begins, found, wanted))
        case CutText():
            return isinstance(found, str) and found.startswith(wanted)
        case _:
            return type(found) is type(wanted) and found == wanted


def lines(text):
    """Return the values of a body, which of a watch are several."""
    return [normal(read(line)) for line in text.splitlines() if line.strip()]
