"""The status of a claim: what it was given, and who may use it.

Nobody is protected from himself, as upstream: whether a device belongs to another claim, or pods still run, no API
server knows. What it does check is the shape, and that an allocation never changes into another one.
"""

from collections.abc import Set as AbstractSet
from ipaddress import ip_interface
from typing import Any, Final, TypeAlias

from dra.local.kinds import causes, devices, gotypes, names, node_selectors
from dra.local.objects import Object
from dra.local.refusals import Cause

RESERVED_FOR: Final = 256
RESULTS: Final = 32
CONFIGS: Final = 64
CONDITIONS: Final = 8
IPS: Final = 16
DATA_LENGTH: Final = 10 * 1024
INTERFACE_LENGTH: Final = 256
HARDWARE_LENGTH: Final = 128

DeviceId: TypeAlias = tuple[str, str, str, str | None]
"""Driver, pool, device, share."""

_PATH: Final = "status"


def device_id(holder: Object) -> DeviceId:
    """Return which device a result or a device status speaks of."""
    driver, pool, device = (holder.get(name, "") for name in ("driver", "pool", "device"))
    return driver, pool, device, holder.get("shareID")


def allocated(status: Object) -> set[DeviceId]:
    """Return the devices of a claim."""
    given = (status.get("allocation") or {}).get("devices") or {}
    return {device_id(each) for each in given.get("results") or ()}


def tidy(new: Object, old: Object) -> None:
    """Take the statuses of devices that the claim has lost out of a new status, and lists that are empty."""
    lost = allocated(old) - allocated(new)
    new["devices"] = [each for each in new.get("devices") or () if device_id(each) not in lost]
    for name in ("devices", "reservedFor"):
        if not new.get(name):
            new.pop(name, None)  # Go writes no empty lists here


def validate(claim: Object, before: Object, *, generated: bool) -> list[Cause]:
    """Return what is wrong with a change of the status of a claim; ``generated``: in words of generated validation."""
    status, old = claim.get("status") or {}, before.get("status") or {}
    found = _consumers(claim, status, old, generated=generated)
    found += _device_statuses(status)
    given, had = status.get("allocation"), old.get("allocation")
    if given is not None and had is not None and generated:
        return found + causes.unmodified(f"{_PATH}.allocation", given, had, detail=causes.NO_MODIFY)
    if given is not None and had is not None:
        return found + causes.immutable(f"{_PATH}.allocation", given, had, text=gotypes.allocation(given))
    if given is not None:
        found += _allocation(f"{_PATH}.allocation", given, devices.request_names(claim["spec"].get("devices") or {}))
    return found


def reference(path: str, entry: Object, *, uid: bool = True) -> list[Cause]:
    """Check that a consumer is named completely."""
    wanted = ("resource", "name", "uid") if uid else ("resource", "name")
    return [causes.required(f"{path}.{name}") for name in wanted if not entry.get(name)]


def _consumers(claim: Object, status: Object, old: Object, *, generated: bool) -> list[Cause]:
    path, entries = f"{_PATH}.reservedFor", status.get("reservedFor") or []
    found = causes.each(path, entries, reference, limit=RESERVED_FOR)
    if len(entries) <= RESERVED_FOR:
        shown = _in_go_order if generated else _uid
        found += causes.unique(path, entries, _uid, shown=shown)
    if entries and status.get("allocation") is None:
        found.append(causes.forbidden(path, "may not be specified when `allocated` is not set"))
    elif entries and "deletionTimestamp" in claim["metadata"]:
        listed = old.get("reservedFor") or []
        if any(each not in listed for each in entries):
            detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
            found.append(causes.forbidden(path, detail))
    return found


def _uid(entry: Object) -> str:
    return str(entry.get("uid", ""))


def _in_go_order(entry: Object) -> Object:
    """Return an entry as Go writes it."""
    return {name: entry[name] for name in ("apiGroup", "resource", "name", "uid") if name in entry}


def _allocation(path: str, given: Object, known: AbstractSet[str]) -> list[Cause]:
    held = given.get("devices") or {}
    found = causes.each(
        f"{path}.devices.results",
        held.get("results") or [],
        lambda at, each: _result(at, each, known),
        limit=RESULTS,
    )
    found += causes.each(
        f"{path}.devices.config",
        held.get("config") or [],
        lambda at, each: (
            causes.one_of(f"{at}.source", each.get("source", ""), ("FromClaim", "FromClass"))
            + devices.names_of_requests(f"{at}.requests", each.get("requests") or [], known)
            + devices.configuration(at, each)
        ),
        limit=CONFIGS,
    )
    if given.get("nodeSelector") is not None:
        found += node_selectors.validate(f"{path}.nodeSelector", given["nodeSelector"])
    return found


def _result(path: str, result: Object, known: AbstractSet[str]) -> list[Cause]:
    found = devices.name_of_request(f"{path}.request", result.get("request", ""), known)
    found += devices.driver(f"{path}.driver", result.get("driver", ""))
    found += devices.pool(f"{path}.pool", result.get("pool", ""))
    found += devices.device(f"{path}.device", result.get("device", ""))
    found += devices.binding_conditions(path, result)
    return found + _share(f"{path}.shareID", result.get("shareID"))


def _share(path: str, value: str | None) -> list[Cause]:
    if value is None or names.is_uuid(value):
        return []
    if names.is_uuid(value.lower()):
        detail = (
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters"
        )
        return [causes.invalid(path, value, detail)]
    return [causes.invalid(path, value, f"error validating uid: invalid UUID length: {len(value)}")]


def _device_statuses(status: Object) -> list[Cause]:
    path, entries, given = f"{_PATH}.devices", status.get("devices") or [], allocated(status)
    found = causes.each(path, entries, lambda at, each: _device_status(at, each, given))
    seen: set[DeviceId] = set()
    for index, entry in enumerate(entries):
        this = device_id(entry)
        if this in seen:
            found.append(causes.duplicate(f"{path}[{index}]", _shown(this)))
        seen.add(this)
    return found


def _device_status(path: str, entry: Object, given: AbstractSet[DeviceId]) -> list[Cause]:
    found = devices.driver(f"{path}.driver", entry.get("driver", ""))
    found += devices.pool(f"{path}.pool", entry.get("pool", ""))
    found += devices.device(f"{path}.device", entry.get("device", ""))
    found += _share(f"{path}.shareID", entry.get("shareID"))
    if device_id(entry) not in given:
        found.append(causes.invalid(path, _shown(device_id(entry)), "must be an allocated device in the claim"))
    found += conditions(path, entry, limit=CONDITIONS)
    if entry.get("data") is not None:
        found += devices.raw(f"{path}.data", entry["data"], DATA_LENGTH)
    return found + _network(f"{path}.networkData", entry.get("networkData") or {})


def _shown(device: DeviceId) -> Object:
    driver, pool, name, share = device
    return {"Driver": driver, "Pool": pool, "Device": name, "ShareID": share}


def conditions(path: str, holder: Object, *, limit: int) -> list[Cause]:
    """Check the conditions of a status."""
    listed = holder.get("conditions") or []
    found = [causes.too_many(f"{path}.conditions", len(listed), limit)] if len(listed) > limit else []
    found += causes.unique(f"{path}.conditions", listed, lambda each: each.get("type", ""), suffix=".type")
    return found + causes.each(f"{path}.conditions", listed, _condition)


def _condition(path: str, condition: Object) -> list[Cause]:
    kind, reason = condition.get("type", ""), condition.get("reason", "")
    found = causes.texts(f"{path}.type", kind, names.key(kind))
    if condition.get("status") not in ("True", "False", "Unknown"):
        found.append(causes.unsupported(f"{path}.status", condition.get("status", ""), ("False", "True", "Unknown")))
    if not condition.get("lastTransitionTime"):
        found.append(causes.required(f"{path}.lastTransitionTime"))
    if not reason:
        found.append(causes.required(f"{path}.reason"))
    return found


def _network(path: str, data: dict[str, Any]) -> list[Cause]:
    found = []
    for name, limit in (("interfaceName", INTERFACE_LENGTH), ("hardwareAddress", HARDWARE_LENGTH)):
        if len(data.get(name, "").encode()) > limit:
            found.append(causes.too_long(f"{path}.{name}", limit))
    addresses = data.get("ips") or []
    found += causes.each(f"{path}.ips", addresses, _address, limit=IPS)
    return found if len(addresses) > IPS else found + causes.unique(f"{path}.ips", addresses, str)


def _address(path: str, text: str) -> list[Cause]:
    try:
        whole, slash, _ = text.partition("/")
        ip_interface(text)
        if slash and whole:
            return []
    except ValueError:
        pass
    detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    return [causes.invalid(path, text, detail)]
