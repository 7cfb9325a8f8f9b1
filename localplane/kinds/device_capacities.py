"""Validates capacities of devices and their request policies.

Valid values are compared as whole numbers, rounded up, as without the gate DRAFractionalCapacityRange.
"""

from fractions import Fraction
from math import ceil
from typing import Final

from dra.model.quantities import parse
from localplane.kinds import field_errors
from localplane.objects import Object
from localplane.status_errors import FieldError

VALID_VALUES_MAX_SIZE: Final = 10


def validate(path: str, capacity: Object, *, shared: bool) -> list[FieldError]:
    """Return the errors of a capacity; only a device shared among claims may have a request policy."""
    policy = capacity.get("requestPolicy")
    if policy is None:
        return []
    path = f"{path}.requestPolicy"
    if not shared:
        return [field_errors.forbidden(path, "allowMultipleAllocations must be true")]
    options, span = policy.get("validValues") or [], policy.get("validRange")
    if options and span is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [field_errors.forbidden(path, detail)]
    kind = "validValues" if options else "validRange"
    if (options or span is not None) and policy.get("default") is None:
        return [field_errors.required(f"{path}.default", f"required when {kind} is defined")]
    if options:
        return _validate_valid_values(f"{path}.{kind}", options, policy["default"], capacity.get("value", "0"))
    return (
        []
        if span is None
        else _validate_valid_range(f"{path}.{kind}", span, policy["default"], capacity.get("value", "0"))
    )


def _validate_valid_values(path: str, options: list[str], chosen: str, most: str) -> list[FieldError]:
    amounts = [parse(option) for option in options]
    causes = [
        field_errors.invalid(f"{path}[{index}]", options[index], "values must be sorted in ascending order")
        for index in range(1, len(amounts))
        if amounts[index - 1] > amounts[index]
    ]
    if len(options) > VALID_VALUES_MAX_SIZE:
        causes.append(field_errors.too_many(path, len(options), VALID_VALUES_MAX_SIZE))
    else:
        causes += [
            field_errors.invalid(f"{path}[{index}]", options[index], f"option is larger than capacity value: {most}")
            for index, amount in enumerate(amounts)
            if amount > parse(most)
        ]
        causes += field_errors.validate_unique(path, options, lambda option: str(ceil(parse(option))))
    if parse(chosen) not in amounts:
        causes.append(field_errors.invalid(path, chosen, "default value is not valid according to the requestPolicy"))
    return causes


def _validate_valid_range(path: str, span: Object, chosen: str, most: str) -> list[FieldError]:
    least, top, step = span.get("min"), span.get("max"), span.get("step")
    if least is None:
        return [field_errors.required(f"{path}.min", "required when validRange is defined")]
    causes = []

    def refuse(at: str, shown: str, wrong: bool, detail: str) -> None:  # noqa: FBT001 - the condition of one rule
        if wrong:
            causes.append(field_errors.invalid(f"{path}.{at}", shown, detail))

    low, given, whole = parse(least), parse(chosen), parse(most)
    refuse("min", least, low > whole, f"min is larger than capacity value: {most}")
    refuse("min", chosen, given < low, f"default is less than min: {least}")
    if top is not None:
        refuse("max", least, low > parse(top), f"min is larger than max: {top}")
        refuse("max", top, parse(top) > whole, f"max is larger than capacity value: {most}")
        refuse("max", chosen, given > parse(top), f"default is more than max: {top}")
    if step is not None:
        one = low + parse(step)
        refuse("step", step, one > whole, f"one step {_format_amount(one)} is larger than capacity value: {most}")
        for value in (chosen, *(() if top is None else (top,))):
            off = (parse(value) - low) % parse(step) != 0 if parse(step) else True
            refuse("step", value, off, f"value is not a multiple of a given step ({step}) from ({least})")
    return causes


def _format_amount(amount: Fraction) -> str:
    return str(int(amount)) if amount.denominator == 1 else str(float(amount))
