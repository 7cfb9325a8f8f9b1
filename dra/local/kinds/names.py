r"""What names, keys and identifiers look like, and what is wrong with one that does not.

All functions return the faults of a text, in upstream's words; none means that it is fine.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LETTER_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_C_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_ENV_NAME: Final = re.compile(r"[ -<>-~]+")
_SEMVER_PART: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-{_SEMVER_PART}(\.{_SEMVER_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253
DRIVER_LENGTH: Final = 63
C_NAME_LENGTH: Final = 32

_LABEL_SENTENCE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_LETTER_LABEL_SENTENCE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_SUBDOMAIN_SENTENCE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_SENTENCE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_EMPTY: Final = "must be non-empty"


def _pattern(sentence: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{sentence} (e.g. {listed}regex used for validation is '{pattern}')"


def _longest(limit: int) -> str:
    return f"must be no more than {limit} characters"


def label(text: str) -> list[str]:
    """DNS label: namespaces, devices, requests, containers."""
    faults = [_longest(_LABEL_LENGTH)] if len(text) > _LABEL_LENGTH else []
    if not re.fullmatch(_LABEL, text):
        faults.append(_pattern(_LABEL_SENTENCE, _LABEL, "my-name", "123-abc"))
    return faults


def letter_label(text: str) -> list[str]:
    """DNS label that begins with a letter (RFC 1035): names of kinds and resources."""
    faults = [_longest(_LABEL_LENGTH)] if len(text) > _LABEL_LENGTH else []
    if not re.fullmatch(_LETTER_LABEL, text):
        faults.append(_pattern(_LETTER_LABEL_SENTENCE, _LETTER_LABEL, "my-name", "abc-123"))
    return faults


def subdomain(text: str) -> list[str]:
    """DNS subdomain: the names of most objects."""
    faults = [_longest(_SUBDOMAIN_LENGTH)] if len(text) > _SUBDOMAIN_LENGTH else []
    if not re.fullmatch(_SUBDOMAIN, text):
        faults.append(_pattern(_SUBDOMAIN_SENTENCE, _SUBDOMAIN, "example.com"))
    return faults


def segment(text: str) -> list[str]:
    """What may stand between two slashes of a path: names of roles."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{letter}'" for letter in "/%" if letter in text]


def key(text: str) -> list[str]:
    """Key of a label, with or without a domain; also of finalizers and taints."""
    *domain, name = text.split("/")
    if len(domain) > 1:
        fault = _pattern(_KEY_SENTENCE, _KEY, "MyName", "my.name", "123-abc")
        return [f"a valid label key {fault} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if domain:
        found = subdomain(domain[0]) if domain[0] else [_EMPTY]
        faults += [f"prefix part {fault}" for fault in found]
    if not name:
        faults.append(f"name part {_EMPTY}")
    elif len(name) > _LABEL_LENGTH:
        faults.append(f"name part {_longest(_LABEL_LENGTH)}")
    if not re.fullmatch(_KEY, name):
        faults.append("name part " + _pattern(_KEY_SENTENCE, _KEY, "MyName", "my.name", "123-abc"))
    return faults


def label_value(text: str) -> list[str]:
    """Value of a label."""
    faults = [_longest(_LABEL_LENGTH)] if len(text) > _LABEL_LENGTH else []
    if not re.fullmatch(f"({_KEY})?", text):
        sentence = f"a valid label must be an empty string or {_KEY_SENTENCE.removeprefix('must ')}"
        faults.append(_pattern(sentence, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return faults


def c_name(text: str) -> list[str]:
    """Identifier of C: the last part of a device attribute."""
    if re.fullmatch(_C_NAME, text):
        return []
    sentence = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return [_pattern(sentence, _C_NAME, "my_name", "MY_NAME", "MyName")]


def config_key(text: str) -> list[str]:
    """Key of a ConfigMap or Secret."""
    faults = [_longest(_SUBDOMAIN_LENGTH)] if len(text) > _SUBDOMAIN_LENGTH else []
    if not re.fullmatch(_CONFIG_KEY, text):
        sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        faults.append(_pattern(sentence, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        faults.append(f"must not be '{text}'")
    elif text.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def env_name(text: str) -> list[str]:
    """Name of an environment variable."""
    if _ENV_NAME.fullmatch(text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port(text: str) -> list[str]:
    """Name of a port, as IANA has them."""
    faults = ["must be no more than 15 characters"] if len(text) > 15 else []  # noqa: PLR2004 - IANA's
    if not re.fullmatch("[-a-z0-9]+", text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def semver(text: str) -> list[str]:
    """Version as semver.org has it."""
    return [] if _SEMVER.fullmatch(text) else ["must be a string compatible with semver.org spec 2.0.0"]


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its normal form."""
    return _UUID.fullmatch(text) is not None


class Naming(Enum):
    """What the names of a kind's objects look like."""

    SUBDOMAIN = "subdomain"
    LABEL = "label"
    SEGMENT = "segment"
    ANY = "any"
    """A review is never stored and needs no name."""

    def faults(self, name: str, *, prefix: bool = False) -> list[str]:
        """Return what is wrong with a name, or with the prefix of a generated one."""
        check = _RULES.get(self)
        if check is None:
            return []
        return check(name[:-1] + "a" if prefix and name.endswith("-") and len(name) > 1 else name)


_RULES: Final[dict[Naming, Callable[[str], list[str]]]] = {
    Naming.SUBDOMAIN: subdomain,
    Naming.LABEL: label,
    Naming.SEGMENT: segment,
}
