r"""Validates names, keys and identifiers, with upstream's messages.

Each function returns the faults of a text; an empty list means that the text is valid.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Final

_DNS1123_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN: Final = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_QUALIFIED_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_MAP_KEY: Final = "[-._a-zA-Z0-9]+"
_DNS1123_LABEL_PATTERN: Final = re.compile(_DNS1123_LABEL)
_DNS1035_LABEL_PATTERN: Final = re.compile(_DNS1035_LABEL)
_DNS1123_SUBDOMAIN_PATTERN: Final = re.compile(_DNS1123_SUBDOMAIN)
_QUALIFIED_NAME_PATTERN: Final = re.compile(_QUALIFIED_NAME)
_LABEL_VALUE_PATTERN: Final = re.compile(f"({_QUALIFIED_NAME})?")
_C_IDENTIFIER_PATTERN: Final = re.compile(_C_IDENTIFIER)
_CONFIG_MAP_KEY_PATTERN: Final = re.compile(_CONFIG_MAP_KEY)
_ENV_VAR_NAME: Final = re.compile(r"[ -<>-~]+")
_SEMVER_PART: Final = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-{_SEMVER_PART}(\.{_SEMVER_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_LABEL_MAX_LENGTH: Final = 63
_SUBDOMAIN_MAX_LENGTH: Final = 253
DRIVER_NAME_MAX_LENGTH: Final = 63
C_IDENTIFIER_MAX_LENGTH: Final = 32

_DNS1123_LABEL_ERROR: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_LABEL_ERROR: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_DNS1123_SUBDOMAIN_ERROR: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_QUALIFIED_NAME_ERROR: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_EMPTY_ERROR: Final = "must be non-empty"


def _regex_error(sentence: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{sentence} (e.g. {listed}regex used for validation is '{pattern}')"


def _max_length_error(limit: int) -> str:
    return f"must be no more than {limit} characters"


def dns1123_label(text: str) -> list[str]:
    """Return the faults of a DNS label (RFC 1123): namespaces, devices, requests, containers."""
    errors = [_max_length_error(_LABEL_MAX_LENGTH)] if len(text) > _LABEL_MAX_LENGTH else []
    if not _DNS1123_LABEL_PATTERN.fullmatch(text):
        errors.append(_regex_error(_DNS1123_LABEL_ERROR, _DNS1123_LABEL, "my-name", "123-abc"))
    return errors


def dns1035_label(text: str) -> list[str]:
    """Return the faults of a DNS label that begins with a letter (RFC 1035): names of kinds and resources."""
    errors = [_max_length_error(_LABEL_MAX_LENGTH)] if len(text) > _LABEL_MAX_LENGTH else []
    if not _DNS1035_LABEL_PATTERN.fullmatch(text):
        errors.append(_regex_error(_DNS1035_LABEL_ERROR, _DNS1035_LABEL, "my-name", "abc-123"))
    return errors


def dns1123_subdomain(text: str) -> list[str]:
    """Return the faults of a DNS subdomain (RFC 1123): the names of most objects."""
    errors = [_max_length_error(_SUBDOMAIN_MAX_LENGTH)] if len(text) > _SUBDOMAIN_MAX_LENGTH else []
    if not _DNS1123_SUBDOMAIN_PATTERN.fullmatch(text):
        errors.append(_regex_error(_DNS1123_SUBDOMAIN_ERROR, _DNS1123_SUBDOMAIN, "example.com"))
    return errors


def path_segment(text: str) -> list[str]:
    """Return the faults of a URL path segment: names of roles."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{letter}'" for letter in "/%" if letter in text]


def qualified_name(text: str) -> list[str]:
    """Return the faults of a label key with an optional domain; also for finalizers and taints."""
    *domain, name = text.split("/")
    if len(domain) > 1:
        error = _regex_error(_QUALIFIED_NAME_ERROR, _QUALIFIED_NAME, "MyName", "my.name", "123-abc")
        return [f"a valid label key {error} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors = []
    if domain:
        prefix_errors = dns1123_subdomain(domain[0]) if domain[0] else [_EMPTY_ERROR]
        errors += [f"prefix part {error}" for error in prefix_errors]
    if not name:
        errors.append(f"name part {_EMPTY_ERROR}")
    elif len(name) > _LABEL_MAX_LENGTH:
        errors.append(f"name part {_max_length_error(_LABEL_MAX_LENGTH)}")
    if not _QUALIFIED_NAME_PATTERN.fullmatch(name):
        errors.append(
            "name part " + _regex_error(_QUALIFIED_NAME_ERROR, _QUALIFIED_NAME, "MyName", "my.name", "123-abc")
        )
    return errors


def label_value(text: str) -> list[str]:
    """Return the faults of a label value."""
    errors = [_max_length_error(_LABEL_MAX_LENGTH)] if len(text) > _LABEL_MAX_LENGTH else []
    if not _LABEL_VALUE_PATTERN.fullmatch(text):
        sentence = f"a valid label must be an empty string or {_QUALIFIED_NAME_ERROR.removeprefix('must ')}"
        errors.append(_regex_error(sentence, f"({_QUALIFIED_NAME})?", "MyValue", "my_value", "12345"))
    return errors


def c_identifier(text: str) -> list[str]:
    """Return the faults of a C identifier: the name part of a device attribute."""
    if _C_IDENTIFIER_PATTERN.fullmatch(text):
        return []
    sentence = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return [_regex_error(sentence, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def config_map_key(text: str) -> list[str]:
    """Return the faults of a key in a ConfigMap or Secret."""
    errors = [_max_length_error(_SUBDOMAIN_MAX_LENGTH)] if len(text) > _SUBDOMAIN_MAX_LENGTH else []
    if not _CONFIG_MAP_KEY_PATTERN.fullmatch(text):
        sentence = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(_regex_error(sentence, _CONFIG_MAP_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in (".", ".."):
        errors.append(f"must not be '{text}'")
    elif text.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def env_var_name(text: str) -> list[str]:
    """Return the faults of an environment variable name."""
    if _ENV_VAR_NAME.fullmatch(text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_name(text: str) -> list[str]:
    """Return the faults of a port name (IANA service name)."""
    errors = ["must be no more than 15 characters"] if len(text) > 15 else []  # noqa: PLR2004 - IANA's
    if not re.fullmatch("[-a-z0-9]+", text):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        errors.append("must contain at least one letter (a-z)")
    if "--" in text:
        errors.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def semver(text: str) -> list[str]:
    """Return the faults of a semantic version (semver.org 2.0.0)."""
    return [] if _SEMVER.fullmatch(text) else ["must be a string compatible with semver.org spec 2.0.0"]


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in normal form: lower case, with hyphens."""
    return _UUID.fullmatch(text) is not None


class NameFormat(Enum):
    """Formats of object names, selected per kind."""

    SUBDOMAIN = "subdomain"
    LABEL = "label"
    SEGMENT = "segment"
    ANY = "any"
    """Any name: access reviews are never stored and need none."""

    def errors(self, name: str, *, prefix: bool = False) -> list[str]:
        """Return the faults of a name, or of a generateName prefix."""
        check = _CHECKS.get(self)
        if check is None:
            return []
        return check(name[:-1] + "a" if prefix and name.endswith("-") and len(name) > 1 else name)


_CHECKS: Final[dict[NameFormat, Callable[[str], list[str]]]] = {
    NameFormat.SUBDOMAIN: dns1123_subdomain,
    NameFormat.LABEL: dns1123_label,
    NameFormat.SEGMENT: path_segment,
}
