"""Validates the status of ResourceClaims: allocation, reservedFor and device statuses.

As upstream, the API server does not know whether a device is allocated to another claim, or whether pods still run.
Validation covers the structure, and that an allocation never changes into another allocation.
"""

from collections.abc import Set as AbstractSet
from ipaddress import ip_interface
from typing import Any, Final, TypeAlias

from dra.model import name_validation
from localplane.kinds import device_validation, field_errors, node_selectors, stricter_devices
from localplane.objects import Object
from localplane.status_errors import FieldError

RESERVED_FOR_MAX_SIZE: Final = 256
ALLOCATION_RESULTS_MAX_SIZE: Final = 32
ALLOCATION_CONFIG_MAX_SIZE: Final = 64
DEVICE_CONDITIONS_MAX_SIZE: Final = 8
NETWORK_DATA_IPS_MAX_SIZE: Final = 16
DEVICE_DATA_MAX_LENGTH: Final = 10 * 1024
INTERFACE_NAME_MAX_LENGTH: Final = 256
HARDWARE_ADDRESS_MAX_LENGTH: Final = 128

SharedDeviceId: TypeAlias = tuple[str, str, str, str | None]
"""Driver, pool, device and share ID of an allocated device."""

_PATH: Final = "status"


def device_id(holder: Object) -> SharedDeviceId:
    """Return the device of an allocation result or a device status."""
    driver, pool, device = (holder.get(name, "") for name in ("driver", "pool", "device"))
    return driver, pool, device, holder.get("shareID")


def allocated_devices(status: Object) -> set[SharedDeviceId]:
    """Return the allocated devices in the status of a claim."""
    given = (status.get("allocation") or {}).get("devices") or {}
    return {device_id(result) for result in given.get("results") or ()}


def drop_deallocated_device_statuses(new: Object, old: Object) -> None:
    """Remove the statuses of deallocated devices, and empty lists, from a new status."""
    lost = allocated_devices(old) - allocated_devices(new)
    new["devices"] = [entry for entry in new.get("devices") or () if device_id(entry) not in lost]
    for name in ("devices", "reservedFor"):
        if not new.get(name):
            new.pop(name, None)  # Go omits these lists when empty


def validate(claim: Object, before: Object, *, generated: bool, stricter: bool) -> list[FieldError]:
    """Return the errors of a status update of a claim; `generated` selects the messages of generated validation.

    `stricter`: consumed capacities are checked as since 1.38, too.
    """
    status, old = claim.get("status") or {}, before.get("status") or {}
    causes = _validate_reserved_for(claim, status, old, generated=generated)
    causes += _validate_device_statuses(status)
    given, had = status.get("allocation"), old.get("allocation")
    if given is not None and had is not None and generated:
        return causes + field_errors.validate_unmodified(
            f"{_PATH}.allocation", given, had, detail=field_errors.NO_MODIFY
        )
    if given is not None and had is not None:
        return causes + field_errors.validate_immutable(f"{_PATH}.allocation", given, had)
    if given is not None:
        causes += _validate_allocation(
            f"{_PATH}.allocation", given, device_validation.request_names(claim["spec"].get("devices") or {})
        )
        for index, result in enumerate((given.get("devices") or {}).get("results") or () if stricter else ()):
            path = f"{_PATH}.allocation.devices.results[{index}].consumedCapacity"
            causes += stricter_devices.validate_amounts(path, result.get("consumedCapacity") or {})
    return causes


def validate_consumer_reference(path: str, entry: Object, *, uid: bool = True) -> list[FieldError]:
    """Return the errors of a consumer reference: required fields that are missing."""
    wanted = ("resource", "name", "uid") if uid else ("resource", "name")
    return [field_errors.required(f"{path}.{name}") for name in wanted if not entry.get(name)]


def _validate_reserved_for(claim: Object, status: Object, old: Object, *, generated: bool) -> list[FieldError]:
    path, entries = f"{_PATH}.reservedFor", status.get("reservedFor") or []
    causes = field_errors.validate_items(path, entries, validate_consumer_reference, limit=RESERVED_FOR_MAX_SIZE)
    if len(entries) <= RESERVED_FOR_MAX_SIZE:
        shown = _in_go_order if generated else _uid
        causes += field_errors.validate_unique(path, entries, _uid, shown=shown)
    if entries and status.get("allocation") is None:
        causes.append(field_errors.forbidden(path, "may not be specified when `allocated` is not set"))
    elif entries and "deletionTimestamp" in claim["metadata"]:
        listed = old.get("reservedFor") or []
        if any(entry not in listed for entry in entries):
            detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            causes.append(field_errors.forbidden(path, detail))
    return causes


def _uid(entry: Object) -> str:
    return str(entry.get("uid", ""))


def _in_go_order(entry: Object) -> Object:
    """Return an entry with its fields in Go's order."""
    return {name: entry[name] for name in ("apiGroup", "resource", "name", "uid") if name in entry}


def _validate_allocation(path: str, given: Object, known: AbstractSet[str]) -> list[FieldError]:
    held = given.get("devices") or {}
    causes = field_errors.validate_items(
        f"{path}.devices.results",
        held.get("results") or [],
        lambda at, result: _validate_allocation_result(at, result, known),
        limit=ALLOCATION_RESULTS_MAX_SIZE,
    )
    causes += field_errors.validate_items(
        f"{path}.devices.config",
        held.get("config") or [],
        lambda at, config: (
            field_errors.validate_enum(f"{at}.source", config.get("source", ""), ("FromClaim", "FromClass"))
            + device_validation.validate_request_references(f"{at}.requests", config.get("requests") or [], known)
            + device_validation.validate_device_configuration(at, config)
        ),
        limit=ALLOCATION_CONFIG_MAX_SIZE,
    )
    if given.get("nodeSelector") is not None:
        causes += node_selectors.validate(f"{path}.nodeSelector", given["nodeSelector"])
    return causes


def _validate_allocation_result(path: str, result: Object, known: AbstractSet[str]) -> list[FieldError]:
    causes = device_validation.validate_request_reference(f"{path}.request", result.get("request", ""), known)
    causes += device_validation.validate_driver_name(f"{path}.driver", result.get("driver", ""))
    causes += device_validation.validate_pool_name(f"{path}.pool", result.get("pool", ""))
    causes += device_validation.validate_device_name(f"{path}.device", result.get("device", ""))
    causes += device_validation.validate_binding_conditions(path, result)
    return causes + _validate_share_id(f"{path}.shareID", result.get("shareID"))


def _validate_share_id(path: str, value: str | None) -> list[FieldError]:
    if value is None or name_validation.is_uuid(value):
        return []
    if name_validation.is_uuid(value.lower()):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        return [field_errors.invalid(path, value, detail)]
    return [field_errors.invalid(path, value, f"error validating uid: invalid UUID length: {len(value)}")]


def _validate_device_statuses(status: Object) -> list[FieldError]:
    path, entries, given = f"{_PATH}.devices", status.get("devices") or [], allocated_devices(status)
    causes = field_errors.validate_items(
        path, entries, lambda at, device_status: _validate_device_status(at, device_status, given)
    )
    seen: set[SharedDeviceId] = set()
    for index, entry in enumerate(entries):
        this = device_id(entry)
        if this in seen:
            causes.append(field_errors.duplicate(f"{path}[{index}]", _device_as_go(this)))
        seen.add(this)
    return causes


def _validate_device_status(path: str, entry: Object, given: AbstractSet[SharedDeviceId]) -> list[FieldError]:
    causes = device_validation.validate_driver_name(f"{path}.driver", entry.get("driver", ""))
    causes += device_validation.validate_pool_name(f"{path}.pool", entry.get("pool", ""))
    causes += device_validation.validate_device_name(f"{path}.device", entry.get("device", ""))
    causes += _validate_share_id(f"{path}.shareID", entry.get("shareID"))
    if device_id(entry) not in given:
        causes.append(
            field_errors.invalid(path, _device_as_go(device_id(entry)), "must be an allocated device in the claim")
        )
    causes += validate_conditions(path, entry, limit=DEVICE_CONDITIONS_MAX_SIZE)
    if entry.get("data") is not None:
        causes += device_validation.validate_raw_object(f"{path}.data", entry["data"], DEVICE_DATA_MAX_LENGTH)
    return causes + _validate_network_data(f"{path}.networkData", entry.get("networkData") or {})


def _device_as_go(device: SharedDeviceId) -> Object:
    driver, pool, name, share = device
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share}


def validate_conditions(path: str, holder: Object, *, limit: int) -> list[FieldError]:
    """Return the errors of a status's conditions."""
    listed = holder.get("conditions") or []
    causes = [field_errors.too_many(f"{path}.conditions", len(listed), limit)] if len(listed) > limit else []
    causes += field_errors.validate_unique(
        f"{path}.conditions", listed, lambda condition: condition.get("type", ""), suffix=".type"
    )
    return causes + field_errors.validate_items(f"{path}.conditions", listed, _validate_condition)


def _validate_condition(path: str, condition: Object) -> list[FieldError]:
    kind, reason = condition.get("type", ""), condition.get("reason", "")
    causes = field_errors.invalid_for_each(f"{path}.type", kind, name_validation.qualified_name(kind))
    if condition.get("status") not in ("True", "False", "Unknown"):
        causes.append(
            field_errors.not_supported(f"{path}.status", condition.get("status", ""), ("False", "True", "Unknown"))
        )
    if not condition.get("lastTransitionTime"):
        causes.append(field_errors.required(f"{path}.lastTransitionTime"))
    if not reason:
        causes.append(field_errors.required(f"{path}.reason"))
    return causes


def _validate_network_data(path: str, data: dict[str, Any]) -> list[FieldError]:
    causes = []
    for name, limit in (("interfaceName", INTERFACE_NAME_MAX_LENGTH), ("hardwareAddress", HARDWARE_ADDRESS_MAX_LENGTH)):
        if len(data.get(name, "").encode()) > limit:
            causes.append(field_errors.too_long(f"{path}.{name}", limit))
    addresses = data.get("ips") or []
    causes += field_errors.validate_items(f"{path}.ips", addresses, _validate_cidr, limit=NETWORK_DATA_IPS_MAX_SIZE)
    return (
        causes
        if len(addresses) > NETWORK_DATA_IPS_MAX_SIZE
        else causes + field_errors.validate_unique(f"{path}.ips", addresses, str)
    )


def _validate_cidr(path: str, text: str) -> list[FieldError]:
    try:
        whole, slash, _ = text.partition("/")
        ip_interface(text)
        if slash and whole:
            return []
    except ValueError:
        pass
    detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    return [field_errors.invalid(path, text, detail)]
