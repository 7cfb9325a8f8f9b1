"""The annotations ``resource-spec`` and ``numa-topology-spec`` of pods: JSON objects whose fields are words.

Both are read strictly, so that a typo does not silently mean the default. An admission policy reads them as well, and
CEL cannot parse JSON; so the grammar is a regular expression that Python and RE2 read alike: strings without escapes,
which no valid word needs, or null.
"""

import re
from collections.abc import Mapping
from typing import Final

from dra.api.koordinator import well_known
from dra.api.parameters.cpu_policies import CpuBindPolicy, CpuExclusivePolicy
from dra.model.koordinator_classes import NumaTopologyPolicy
from dra.model.meta import Struct

_SPACE: Final = r"[ \t\r\n]*"
_STRING: Final = r'"[^"\\\x00-\x1f]*"'
FIELD_PATTERN: Final = rf"{_STRING}{_SPACE}:{_SPACE}(?:{_STRING}|null)"
OBJECT_PATTERN: Final = (
    rf"{_SPACE}\{{{_SPACE}(?:{FIELD_PATTERN}(?:{_SPACE},{_SPACE}{FIELD_PATTERN})*{_SPACE})?\}}{_SPACE}"
)

MAX_LENGTH: Final = 1024
"""Maximum characters of an annotation; a longer one is expensive to evaluate in CEL."""

_FIELD: Final = re.compile(FIELD_PATTERN)
_OBJECT: Final = re.compile(OBJECT_PATTERN)

DEFAULT: Final = "Default"
CONSTRAINED_BURST: Final = "ConstrainedBurst"
"""Bind policy of pods that are not bound to CPUs."""

REQUIRED_BIND_POLICY: Final = "requiredCPUBindPolicy"
PREFERRED_BIND_POLICY: Final = "preferredCPUBindPolicy"
EXCLUSIVE_POLICY: Final = "preferredCPUExclusivePolicy"

NUMA_TOPOLOGY_POLICY: Final = "numaTopologyPolicy"
NUMA_NODE_EXCLUSIVE: Final = "singleNUMANodeExclusive"

_BIND_POLICIES: Final = (DEFAULT, *CpuBindPolicy, CONSTRAINED_BURST)


class WordAnnotation(Struct, frozen=True):
    """An annotation with a JSON object, and the words of each field; no word, or null, is the default."""

    name: str
    words: Mapping[str, tuple[str, ...]]

    @property
    def malformed_text(self) -> str:
        """The text that refuses any other value than such an object."""
        return f"must be a JSON object with the fields {', '.join(self.words)}, each at most once"

    @property
    def unknown_text(self) -> str:
        """The text that refuses a field."""
        return f"unknown field; known are {', '.join(self.words)}"

    def word_text(self, field: str) -> str:
        """Return the text that refuses the word of a field."""
        words = self.words[field]
        return f"must be one of {', '.join(words)}" if len(words) > 1 else f"must be {words[0]}"


RESOURCE_SPEC: Final = WordAnnotation(
    well_known.ANNOTATION_RESOURCE_SPEC,
    {
        REQUIRED_BIND_POLICY: _BIND_POLICIES,
        PREFERRED_BIND_POLICY: _BIND_POLICIES,
        EXCLUSIVE_POLICY: tuple(CpuExclusivePolicy),
    },
)
NUMA_TOPOLOGY_SPEC: Final = WordAnnotation(
    well_known.ANNOTATION_NUMA_TOPOLOGY_SPEC,
    {
        NUMA_TOPOLOGY_POLICY: tuple(NumaTopologyPolicy),
        NUMA_NODE_EXCLUSIVE: ("Preferred",),  # required, a NUMA node would have to be kept from other pods: nobody can
    },
)


class MalformedWordsError(ValueError):
    """An annotation cannot be used; `faults` has the field (empty for the whole annotation) and a text for each."""

    def __init__(self, faults: tuple[tuple[str, str], ...]) -> None:
        super().__init__("; ".join(f"{field}: {text}" if field else text for field, text in faults))
        self.faults = faults


def parse_words(kind: WordAnnotation, text: str) -> dict[str, str]:
    """Return the word of each field that has one. Raises MalformedWordsError."""
    if len(text) > MAX_LENGTH or _OBJECT.fullmatch(text) is None:
        raise MalformedWordsError((("", kind.malformed_text),))
    parts = [field.split('"') for field in _FIELD.findall(text)]
    fields = [(key, rest[1] if len(rest) > 1 else "") for _, key, *rest in parts]
    if len(dict(fields)) < len(fields):
        raise MalformedWordsError((("", kind.malformed_text),))
    faults = [
        (field, kind.word_text(field) if field in kind.words else kind.unknown_text)
        for field, word in fields
        if field not in kind.words or (word and word not in kind.words[field])
    ]
    if faults:
        raise MalformedWordsError(tuple(faults))
    return {field: word for field, word in fields if word}
