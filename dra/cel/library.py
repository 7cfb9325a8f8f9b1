"""The functions that Kubernetes adds to CEL, on top of the evaluator's own extensions.

Quantities, versions, addresses and URLs are protobuf messages with one text in normal form, so that the type checker
distinguishes them and ``==`` compares them. A function with invalid arguments raises ValueError, which becomes an
error of the expression.

Not supported: the authorizer (there is no API server to ask), ``format.named`` and macros with two variables
(``self.all(k, v, …)``), which the evaluator does not have for Python.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import pairwise
from typing import Any, Final, TypeAlias

from cel_expr_python import cel
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from dra.cel.memory_leaks import count_leaks
from dra.model import quantities

Message: TypeAlias = Any
"""One of the messages below; protobuf creates their classes at run time."""

_PACKAGE: Final = "kubernetes"


def _descriptors() -> Any:  # noqa: ANN401 - protobuf's pools have no type information
    """Return a new descriptor pool with the messages of the functions."""
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package=_PACKAGE, syntax="proto3")
    for name in ("Quantity", "Semver", "IP", "CIDR", "URL"):
        field = file.message_type.add(name=name).field.add(name="text", number=1)
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
        field.label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    pool.AddSerializedFile(file.SerializeToString())
    return pool


DESCRIPTOR_POOL: Final = _descriptors()


def _class(name: str) -> Callable[..., Message]:
    message_class: Callable[..., Message] = message_factory.GetMessageClass(
        DESCRIPTOR_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}")
    )
    return message_class


_Quantity, _Semver, _IP, _CIDR, _URL = map(_class, ("Quantity", "Semver", "IP", "CIDR", "URL"))

_BOOL, _INT, _DOUBLE, _STRING, _DYN = cel.Type.BOOL, cel.Type.INT, cel.Type.DOUBLE, cel.Type.STRING, cel.Type.DYN
_LIST: Final = cel.Type.List(_DYN)
QUANTITY, SEMVER, IP, CIDR, URL = (
    cel.Type(f"{_PACKAGE}.{name}") for name in ("Quantity", "Semver", "IP", "CIDR", "URL")
)


def _valid(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


# Quantities: the text is the exact fraction.


def quantity(text: str) -> Message:
    """Return a quantity for use in expressions. Raises ValueError."""
    try:
        amount = quantities.parse(text)
    except quantities.MalformedQuantityError:
        pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        raise ValueError(f"quantities must match the regular expression '{pattern}'") from None
    return _Quantity(text=str(amount))


@lru_cache(maxsize=4096)
def _fraction(text: str) -> Fraction:
    return Fraction(text)


def _amount(quantity: Message) -> Fraction:
    return _fraction(quantity.text)


def _add(one: Message, other: Message | int, sign: int) -> Message:
    amount = Fraction(other) if isinstance(other, int) else _amount(other)
    return _Quantity(text=str(_amount(one) + sign * amount))


def _order(one: Any, other: Any) -> int:  # noqa: ANN401 - whatever can be compared
    return int(one > other) - int(one < other)


def _is_integer(quantity: Message) -> bool:
    return _amount(quantity).denominator == 1 and abs(_amount(quantity)) < 2**63


def _as_integer(quantity: Message) -> int:
    if not _is_integer(quantity):
        raise ValueError("cannot convert value to integer")
    return int(_amount(quantity))


def _sign(quantity: Message) -> int:
    return _order(_amount(quantity), 0)


# Versions: the text is the given one, after normalization if that was requested.

_VERSION: Final = re.compile(
    r"(?P<core>(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*))"
    r"(-(?P<pre>[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*))?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def _normalize_version(text: str) -> str:
    """Return a version such as ``v1.2`` or ``01.2.3`` in the form of semantic versions."""
    core, mark, rest = re.fullmatch(r"([0-9.]*)([-+]?)(.*)", text.removeprefix("v"), re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
    return ".".join(parts + ["0"] * (3 - len(parts))) + mark + rest


def semver(text: str, normalize: bool = False) -> Message:  # noqa: FBT001, FBT002 - as CEL calls it
    """Return a semantic version for use in expressions. Raises ValueError."""
    text = _normalize_version(text) if normalize else text
    match = _VERSION.fullmatch(text)
    if match is None or any(part.isdigit() and part != str(int(part)) for part in (match["pre"] or "").split(".")):
        raise ValueError(f"Invalid Semantic Version: {text!r}")
    return _Semver(text=text)


def _precedence(version: Message) -> tuple[Any, ...]:
    match = _VERSION.fullmatch(version.text)
    assert match is not None  # noqa: S101 - it was made by semver
    core = tuple(int(part) for part in match["core"].split("."))
    if match["pre"] is None:
        return (*core, (1,))
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in match["pre"].split("."))
    return (*core, (0, *parts))


def _part(index: int) -> Callable[[Message], int]:
    return lambda version: int(_precedence(version)[index])


# Addresses.


def _address(text: str) -> IPv4Address | IPv6Address:
    address = ip_address(text)
    if "%" in text or (isinstance(address, IPv6Address) and address.ipv4_mapped):
        raise ValueError("IPv4-mapped IPv6 address and zones are not allowed")
    return address


def _network(text: str) -> IPv4Network | IPv6Network:
    if "/" not in text:
        raise ValueError(f"network address parse error: {text!r}")
    return ip_network(text, strict=False)


def _cidr(text: str) -> Message:
    _network(text)
    return _CIDR(text=text)


def _contains(network: Message, other: Message | str) -> bool:
    text = other if isinstance(other, str) else other.text
    outer = _network(network.text)
    inner = _network(text if "/" in text else f"{text}/{_address(text).max_prefixlen}")
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


# URLs.

_URL_PARTS: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?"
)
_ESCAPED: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def _url(text: str) -> Message:
    match = _URL_PARTS.fullmatch(text)
    absolute = match is not None and (match["scheme"] or text.startswith("/"))
    if not absolute or re.search(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return _URL(text=text)


def _url_part(name: str) -> Callable[[Message], str]:
    def read(url: Message) -> str:
        match = _URL_PARTS.fullmatch(url.text)
        return (match[name] if match is not None else None) or ""

    return read


def _host(url: Message) -> str:
    return _url_part("host")(url).rpartition("@")[2]


def _hostname(url: Message) -> str:
    return re.sub(r":\d*$", "", _host(url)).strip("[]")


def _port(url: Message) -> str:
    port = re.search(r":(\d+)$", _host(url))
    return port[1] if port else ""


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda octets: bytes.fromhex(octets[0].replace("%", "")).decode(errors="replace"), text)


def _query(url: Message) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in filter(None, _url_part("query")(url).split("&")):
        name, _, value = (_unescaped(part.replace("+", " ")) for part in pair.partition("="))
        values.setdefault(name, []).append(value)
    return values


# Lists.


def _index(items: list[Any], value: object, *, last: bool = False) -> int:
    places = [index for index, item in enumerate(items) if item == value]
    return (places[-1] if last else places[0]) if places else -1


def _extreme(pick: Callable[[Iterable[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def choose(items: list[Any]) -> object:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return pick(items)

    return choose


def _function(name: str, *overloads: tuple[Sequence[Any], Any, Callable[..., Any]], member: bool = True) -> Any:  # noqa: ANN401
    declared = [
        cel.Overload(f"{name}_{index}".replace(".", "_"), result, list(parameters), member, count_leaks(name, run))
        for index, (parameters, result, run) in enumerate(overloads)
    ]
    return cel.FunctionDecl(name, declared)


def _compare(one: Message, other: Message) -> int:
    """Compare two quantities or two versions; the overload is resolved here, as it is declared for any type."""
    if type(one) is not type(other) or _message_name(one) not in _VALUES:
        raise ValueError("no such overload")
    value = _VALUES[_message_name(one)]
    return _order(value(one), value(other))


def _message_name(message: Message) -> str:
    return str(getattr(getattr(message, "DESCRIPTOR", None), "name", ""))


_VALUES: Final[dict[str, Callable[[Message], Any]]] = {"Quantity": _amount, "Semver": _precedence}


_static: Final = partial(_function, member=False)

FUNCTIONS: Final = cel.CelExtension(
    _PACKAGE,
    [
        _static("quantity", ([_STRING], QUANTITY, quantity)),
        _static("isQuantity", ([_STRING], _BOOL, _valid(quantity))),
        _function("compareTo", ([_DYN, _DYN], _INT, _compare)),
        _function("isLessThan", ([_DYN, _DYN], _BOOL, lambda one, other: _compare(one, other) < 0)),
        _function("isGreaterThan", ([_DYN, _DYN], _BOOL, lambda one, other: _compare(one, other) > 0)),
        *(
            _function(
                name,
                ([QUANTITY, QUANTITY], QUANTITY, partial(_add, sign=sign)),
                ([QUANTITY, _INT], QUANTITY, partial(_add, sign=sign)),
            )
            for name, sign in (("add", 1), ("sub", -1))
        ),
        _function("isInteger", ([QUANTITY], _BOOL, _is_integer)),
        _function("asInteger", ([QUANTITY], _INT, _as_integer)),
        _function("asApproximateFloat", ([QUANTITY], _DOUBLE, lambda quantity: float(_amount(quantity)))),
        _function("sign", ([QUANTITY], _INT, _sign)),
        _static("semver", ([_STRING], SEMVER, semver), ([_STRING, _BOOL], SEMVER, semver)),
        _static(
            "isSemver",
            ([_STRING], _BOOL, _valid(semver)),
            ([_STRING, _BOOL], _BOOL, lambda text, forgiving: _valid(partial(semver, normalize=forgiving))(text)),
        ),
        *(_function(name, ([SEMVER], _INT, _part(index))) for index, name in enumerate(("major", "minor", "patch"))),
        _static("ip", ([_STRING], IP, lambda text: _IP(text=str(_address(text))))),
        _static("isIP", ([_STRING], _BOOL, _valid(_address))),
        _static("ip.isCanonical", ([_STRING], _BOOL, lambda text: str(_address(text)) == text)),
        _function("family", ([IP], _INT, lambda ip: _address(ip.text).version)),
        _function("isUnspecified", ([IP], _BOOL, lambda ip: _address(ip.text).is_unspecified)),
        _function("isLoopback", ([IP], _BOOL, lambda ip: _address(ip.text).is_loopback)),
        _static("cidr", ([_STRING], CIDR, _cidr)),
        _static("isCIDR", ([_STRING], _BOOL, _valid(_network))),
        _function("containsIP", *(([CIDR, kind], _BOOL, _contains) for kind in (_STRING, IP))),
        _function("containsCIDR", *(([CIDR, kind], _BOOL, _contains) for kind in (_STRING, CIDR))),
        _function("prefixLength", ([CIDR], _INT, lambda network: _network(network.text).prefixlen)),
        _static("url", ([_STRING], URL, _url)),
        _static("isURL", ([_STRING], _BOOL, _valid(_url))),
        _function("getScheme", ([URL], _STRING, _url_part("scheme"))),
        _function("getHost", ([URL], _STRING, _host)),
        _function("getHostname", ([URL], _STRING, _hostname)),
        _function("getPort", ([URL], _STRING, _port)),
        _function("getEscapedPath", ([URL], _STRING, _url_part("path"))),
        _function("getQuery", ([URL], cel.Type.Map(_STRING, cel.Type.List(_STRING)), _query)),
        _function("isSorted", ([_LIST], _BOOL, lambda items: all(a <= b for a, b in pairwise(items)))),
        _function("sum", ([_LIST], _DYN, lambda items: sum(items[1:], items[0]) if items else 0)),
        _function("min", ([_LIST], _DYN, _extreme(min, "min"))),
        _function("max", ([_LIST], _DYN, _extreme(max, "max"))),
        _function("indexOf", ([_LIST, _DYN], _INT, _index)),
        _function("lastIndexOf", ([_LIST, _DYN], _INT, partial(_index, last=True))),
        _static("sets.contains", ([_LIST, _LIST], _BOOL, lambda one, other: all(item in one for item in other))),
        _static("sets.intersects", ([_LIST, _LIST], _BOOL, lambda one, other: any(item in one for item in other))),
        _static(
            "sets.equivalent",
            ([_LIST, _LIST], _BOOL, lambda a, b: all(item in a for item in b) and all(item in b for item in a)),
        ),
    ],
)
"""The extension for `cel.NewEnv`, together with `DESCRIPTOR_POOL`."""
