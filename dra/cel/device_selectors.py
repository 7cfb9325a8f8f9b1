"""Device selectors: ``device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0``.

A domain without attributes of the device is an empty map, as upstream defines it: ``has(device.attributes["x"].y)`` is
no error. Any other failure of an evaluation (such as a missing attribute) is an error, and never a silent false.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from dra.cel.evaluator import cel
from dra.cel.expressions import EvaluationError, Expression, MalformedExpressionError, environment
from dra.cel.selector_fields import fields_read, project_device
from dra.model.slices import Device

DeviceInput: TypeAlias = dict[str, Any]
"""The value of ``device`` in a selector."""

SELECTOR_EXPRESSION_MAX_LENGTH: Final = 10 * 1024
"""Maximum number of characters of an expression that an API server accepts."""

RESULT_CACHE_SIZE: Final = 64
"""Maximum number of results kept for a selector and differing devices: users may create any number of devices."""

_DOMAIN_LITERAL: Final = re.compile(r"""["']([a-z0-9][-a-z0-9.]*)["']""")


@cache
def _environment() -> Any:  # noqa: ANN401 - cel.Env
    return environment({"device": cel().Type.DYN})


class MalformedSelectorError(ValueError):
    """An expression that is not valid CEL, or whose result is not a boolean."""


class SelectorError(Exception):
    """An expression that cannot be evaluated for a device."""


class CompiledSelector:
    """A compiled device selector. Raises MalformedSelectorError on construction."""

    __slots__ = ("_compiled", "_domains", "_fields", "_results", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        if len(expression) > SELECTOR_EXPRESSION_MAX_LENGTH:
            raise MalformedSelectorError(
                f"a selector has {len(expression)} characters; {SELECTOR_EXPRESSION_MAX_LENGTH} are allowed"
            )
        try:
            self._compiled = Expression(expression, _environment())
        except MalformedExpressionError as error:
            raise MalformedSelectorError(f"{expression!r} is not a valid CEL expression: {error}") from error
        if self._compiled.type not in (cel().Type.BOOL, cel().Type.DYN):  # a tuple: these types cannot be hashed
            raise MalformedSelectorError(f"{expression!r} evaluates to {self._compiled.type}, not to a bool")
        self._domains = frozenset(_DOMAIN_LITERAL.findall(expression))
        self._fields = fields_read(expression)
        self._results: dict[Hashable, bool | str] = {}

    def __repr__(self) -> str:
        return f"CompiledSelector({self.expression!r})"

    def device_matches(self, driver: str, device: Device, get_input: Callable[[], DeviceInput]) -> bool:
        """Report whether the selector matches a device of a driver; ``get_input`` returns the input for `evaluate`.

        A device that agrees in all fields that the expression reads gets the kept result. Raises SelectorError.
        """
        if self._fields is None:
            return self.evaluate(get_input())
        key = project_device(self._fields, driver, device)
        result = self._results.get(key)
        if result is None:
            if len(self._results) >= RESULT_CACHE_SIZE:
                self._results.clear()
            try:
                result = self.evaluate(get_input())
            except SelectorError as error:
                result = str(error)
            self._results[key] = result
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    def evaluate(self, device: DeviceInput) -> bool:
        """Report whether the selector matches a device. Raises SelectorError where the expression fails."""
        try:
            result = self._compiled.evaluate_flat({"device": self._with_empty_domains(device)})
        except EvaluationError as error:
            raise SelectorError(f"selector {self.expression!r}: {error}") from error
        if not isinstance(result, bool):
            raise SelectorError(f"selector {self.expression!r}: {result!r} is not a bool")
        return result

    def _with_empty_domains(self, device: DeviceInput) -> DeviceInput:
        """Return the device with an empty map for every domain that the expression names."""
        if self._domains <= device["attributes"].keys() and self._domains <= device["capacity"].keys():
            return device
        empty: dict[str, Any] = {domain: {} for domain in self._domains}
        return device | {"attributes": empty | device["attributes"], "capacity": empty | device["capacity"]}


@lru_cache(maxsize=1024)
def compile_selector(expression: str) -> CompiledSelector:
    """Return the compiled selector; an expression is compiled only once. Raises MalformedSelectorError."""
    return CompiledSelector(expression)


def device_input(driver: str, device: Device) -> DeviceInput:
    """Return the input of selectors for a device; names without a domain belong to the driver's domain."""
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": _by_domain(driver, device.attributes, _attribute),
        "capacity": _by_domain(driver, device.capacity, _capacity),
    }


def _by_domain(
    driver: str, values: Mapping[str, Any] | None, convert: Callable[[Mapping[str, Any]], Any]
) -> dict[str, dict[str, Any]]:
    domains: dict[str, dict[str, Any]] = {}
    for name, value in (values or {}).items():
        domain, slash, identifier = name.rpartition("/")
        converted = convert(value)
        if converted is not None:
            named = domains.setdefault(domain if slash else driver, {})
            if slash or identifier not in named:  # of both spellings of a name the one with the domain counts
                named[identifier] = converted
    return domains


def _attribute(value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any type that CEL has
    """Return the value of an attribute; None for an attribute of an unknown type."""
    for kind in ("string", "int", "bool"):
        if kind in value:
            return _scalar(value[kind])
    try:
        if "version" in value:
            return _semver()(value["version"])
        if "versions" in value:
            return [_semver()(version) for version in value["versions"]]
    except (TypeError, ValueError):
        return None
    several = next((value[kind] for kind in ("strings", "ints", "bools") if kind in value), None)
    return [_scalar(item) for item in several] if isinstance(several, list) else None


@cache
def _semver() -> Callable[[str], Any]:
    from dra.cel import library  # noqa: PLC0415 - see `dra.cel.evaluator`

    return library.semver


@cache
def _quantity() -> Callable[[str], Any]:
    from dra.cel import library  # noqa: PLC0415 - see `dra.cel.evaluator`

    return library.quantity


def _scalar(value: object) -> object:
    """Return a value that selectors may see; None for other values, which files may contain but API servers do not."""
    return value if isinstance(value, str | int) else None


def _capacity(value: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a quantity, or None for what is none
    try:
        return _quantity()(value["value"])
    except (KeyError, TypeError, ValueError):
        return None
