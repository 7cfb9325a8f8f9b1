"""Device selectors: ``device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0``.

Kubernetes adds quantities and semantic versions to CEL. The evaluator below knows neither opaque values nor overloads
that differ in the kind of a message, so both are one message: what it is and its canonical text. Equal values then
have equal texts, which makes ``==`` right, and a comparison of one kind with the other fails when it is evaluated.

A domain that a device has no attribute of is an empty map, as upstream has it: ``has(device.attributes["x"].y)`` is no
error. Whatever else goes wrong in an evaluation (an attribute that is not there) is one, and never a silent no.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dra.model import quantities, versions
from dra.model.quantities import MalformedQuantityError
from dra.model.slices import Device
from dra.model.versions import MalformedVersionError, Version

Facts: TypeAlias = dict[str, Any]
"""What a selector sees as ``device``."""

_Scalar: TypeAlias = Any  # an instance of a class made at run time

_QUANTITY: Final = "quantity"
_SEMVER: Final = "semver"
_NAME: Final = "kubernetes.Scalar"
_LITERAL: Final = re.compile(r"""["']([a-z0-9][-a-z0-9.]*)["']""")
_CACHED: Final = 65_536


class MalformedSelectorError(ValueError):
    """An expression that is no CEL, or whose answer is no yes or no."""


class SelectorError(Exception):
    """An expression that cannot be answered for a device."""


def _message() -> tuple[descriptor_pool.DescriptorPool, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="dra/cel/scalar.proto", package="kubernetes", syntax="proto3")
    message = file.message_type.add(name="Scalar")
    for number, name in enumerate(("kind", "text"), start=1):
        field = descriptor_pb2.FieldDescriptorProto
        message.field.add(name=name, number=number, label=field.LABEL_OPTIONAL, type=field.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool, message_factory.GetMessageClass(pool.FindMessageTypeByName(_NAME))


_POOL, _SCALAR = _message()


def _quantity(text: str) -> _Scalar:
    return _SCALAR(kind=_QUANTITY, text=str(quantities.parse(text)))


def _semver(text: str) -> _Scalar:
    return _SCALAR(kind=_SEMVER, text=str(versions.parse(text)))


@lru_cache(maxsize=_CACHED)
def _value(kind: str, text: str) -> Fraction | Version:
    return Fraction(text) if kind == _QUANTITY else versions.parse(text)


def _amount(scalar: _Scalar) -> Fraction:
    found = _value(scalar.kind, scalar.text)
    if isinstance(found, Version):
        raise TypeError("no such overload: a semver is no quantity")
    return found


def _version(scalar: _Scalar) -> Version:
    found = _value(scalar.kind, scalar.text)
    if not isinstance(found, Version):
        raise TypeError("no such overload: a quantity is no semver")
    return found


def _compare(left: _Scalar, right: _Scalar) -> int:
    if left.kind != right.kind:
        raise TypeError(f"no such overload: {left.kind} cannot be compared with {right.kind}")
    if left.kind == _QUANTITY:
        return (_amount(left) > _amount(right)) - (_amount(left) < _amount(right))
    return (_version(left) > _version(right)) - (_version(left) < _version(right))


def _is(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def answer(text: str) -> bool:
        try:
            parse(text)
        except (MalformedQuantityError, MalformedVersionError):
            return False
        return True

    return answer


def _integer(scalar: _Scalar) -> int:
    amount = _amount(scalar)
    if amount.denominator != 1:
        raise ValueError("cannot convert value to integer")
    return int(amount)


def _sum(left: _Scalar, right: _Scalar) -> _Scalar:
    return _SCALAR(kind=_QUANTITY, text=str(_amount(left) + _amount(right)))


def _difference(left: _Scalar, right: _Scalar) -> _Scalar:
    return _SCALAR(kind=_QUANTITY, text=str(_amount(left) - _amount(right)))


def _functions() -> list[cel.FunctionDecl]:
    """Return Kubernetes' quantity and semver libraries."""
    kind, scalar = cel.Type, cel.Type(_NAME)

    def function(name: str, *overloads: tuple[list[Any], Any, Callable[..., Any]], member: bool) -> cel.FunctionDecl:
        return cel.FunctionDecl(
            name,
            [
                cel.Overload(id=f"{name}_{i}", parameters=taken, return_type=given, impl=impl, is_member=member)
                for i, (taken, given, impl) in enumerate(overloads)
            ],
        )

    def loose(text: str, normalize: bool) -> str:  # noqa: FBT001 - CEL has no keywords
        return versions.completed(text) if normalize else text

    return [
        function("quantity", ([kind.STRING], scalar, _quantity), member=False),
        function("isQuantity", ([kind.STRING], kind.BOOL, _is(quantities.parse)), member=False),
        function(
            "semver",
            ([kind.STRING], scalar, _semver),
            ([kind.STRING, kind.BOOL], scalar, lambda text, normalize: _semver(loose(text, normalize))),
            member=False,
        ),
        function(
            "isSemver",
            ([kind.STRING], kind.BOOL, _is(versions.parse)),
            ([kind.STRING, kind.BOOL], kind.BOOL, lambda t, n: _is(versions.parse)(loose(t, n))),
            member=False,
        ),
        function("compareTo", ([scalar, scalar], kind.INT, _compare), member=True),
        function("isGreaterThan", ([scalar, scalar], kind.BOOL, lambda a, b: _compare(a, b) > 0), member=True),
        function("isLessThan", ([scalar, scalar], kind.BOOL, lambda a, b: _compare(a, b) < 0), member=True),
        function(
            "add",
            ([scalar, scalar], scalar, _sum),
            ([scalar, kind.INT], scalar, lambda a, n: _sum(a, _quantity(str(n)))),
            member=True,
        ),
        function(
            "sub",
            ([scalar, scalar], scalar, _difference),
            ([scalar, kind.INT], scalar, lambda a, n: _difference(a, _quantity(str(n)))),
            member=True,
        ),
        function("sign", ([scalar], kind.INT, lambda a: (_amount(a) > 0) - (_amount(a) < 0)), member=True),
        function("isInteger", ([scalar], kind.BOOL, lambda a: _amount(a).denominator == 1), member=True),
        function("asInteger", ([scalar], kind.INT, _integer), member=True),
        function("asApproximateFloat", ([scalar], kind.DOUBLE, lambda a: float(_amount(a))), member=True),
        function("major", ([scalar], kind.INT, lambda a: _version(a).major), member=True),
        function("minor", ([scalar], kind.INT, lambda a: _version(a).minor), member=True),
        function("patch", ([scalar], kind.INT, lambda a: _version(a).patch), member=True),
    ]


_ENVIRONMENT: Final = cel.NewEnv(
    descriptor_pool=_POOL,
    variables={"device": cel.Type.DYN},
    functions=_functions(),
    extensions=[ext_strings.ExtStrings(), ext_bindings.ExtBindings(), ext_math.ExtMath(), ext_optional.ExtOptional()],
)


class Selector:
    """A compiled device selector; raises MalformedSelectorError."""

    __slots__ = ("_compiled", "_domains", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        try:
            self._compiled = _ENVIRONMENT.compile(expression)
        except RuntimeError as error:
            raise MalformedSelectorError(f"{expression!r} is no CEL expression: {error}") from error
        answer = self._compiled.return_type()
        if answer not in (cel.Type.BOOL, cel.Type.DYN):  # a tuple: these types cannot be hashed
            raise MalformedSelectorError(f"{expression!r} answers with {answer}, not with true or false")
        self._domains = frozenset(_LITERAL.findall(expression))

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"

    def matches(self, device: Facts) -> bool:
        """Whether a device is meant; raises SelectorError where that cannot be told."""
        answer = self._compiled.eval(data={"device": self._completed(device)})
        if answer.type() != cel.Type.BOOL:
            raise SelectorError(f"selector {self.expression!r}: {answer.value()}")
        return bool(answer.value())

    def _completed(self, device: Facts) -> Facts:
        """Give the device an empty map for every domain that is asked for."""
        if self._domains <= device["attributes"].keys() and self._domains <= device["capacity"].keys():
            return device
        empty: dict[str, Any] = {domain: {} for domain in self._domains}
        return device | {"attributes": empty | device["attributes"], "capacity": empty | device["capacity"]}


@lru_cache(maxsize=1024)
def selector(expression: str) -> Selector:
    """Return the compiled selector; the same expression is compiled once. Raises MalformedSelectorError."""
    return Selector(expression)


def facts(driver: str, device: Device) -> Facts:
    """Return what selectors see of a device; names without a domain are in the driver's."""
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": _by_domain(driver, device.attributes, _attribute),
        "capacity": _by_domain(driver, device.capacity, _capacity),
    }


def _by_domain(
    driver: str, found: Mapping[str, Any] | None, convert: Callable[[Mapping[str, Any]], Any]
) -> dict[str, dict[str, Any]]:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in (found or {}).items():
        domain, slash, identifier = name.rpartition("/")
        converted = convert(value)
        if converted is not None:
            domains.setdefault(domain if slash else driver, {})[identifier] = converted
    return domains


def _attribute(value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type that CEL has
    """Return an attribute's value; None for one of a type that we do not know."""
    for kind in ("string", "int", "bool"):
        if kind in value:
            return value[kind]
    try:
        if "version" in value:
            return _semver(value["version"])
        if "versions" in value:
            return [_semver(each) for each in value["versions"]]
    except MalformedVersionError:
        return None
    return next((value[kind] for kind in ("strings", "ints", "bools") if kind in value), None)


def _capacity(value: Mapping[str, Any]) -> _Scalar | None:
    try:
        return _quantity(value["value"])
    except (KeyError, MalformedQuantityError):
        return None
