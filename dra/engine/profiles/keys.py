"""Keys and values that a profile can set; the schema of the parameters has the same rules for the API server."""

import re
from typing import Final

from dra.api.profiles import parameters_crd
from dra.api.profiles.parameters import MAX_KEY_LENGTH, MAX_VALUE_LENGTH

_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
_OBJECT_NAME: Final = re.compile(parameters_crd.NAME_PATTERN)
_QUALIFIED_NAME: Final = re.compile(parameters_crd.KEY_PATTERN)
_LABEL_VALUE: Final = re.compile(parameters_crd.LABEL_VALUE_PATTERN)
_RESERVED: Final = re.compile(parameters_crd.RESERVED_KEY_PATTERN)


def is_qualified_name(key: str) -> bool:
    """Report whether Kubernetes admits a key of a label or an annotation."""
    name = key.rpartition("/")[2]
    return len(key) <= MAX_KEY_LENGTH and len(name) <= _MAX_LABEL and _QUALIFIED_NAME.fullmatch(key) is not None


def is_settable(key: str) -> bool:
    """Report whether a profile can set a key: a valid one, and none of Kubernetes' or dra-reserve's own."""
    reserved = _RESERVED.match(key) is not None and not key.startswith(parameters_crd.ADMITTED_PREFIXES)
    return is_qualified_name(key) and not reserved


def is_label_value(value: str) -> bool:
    """Report whether Kubernetes admits the value of a label."""
    return len(value) <= _MAX_LABEL and _LABEL_VALUE.fullmatch(value) is not None


def is_object_name(name: str) -> bool:
    """Report whether an object can have a name, or the name is empty."""
    return len(name) <= _MAX_NAME and _OBJECT_NAME.fullmatch(name) is not None


def is_annotation_value(value: str) -> bool:
    """Report whether the value of an annotation is short enough."""
    return len(value) <= MAX_VALUE_LENGTH
