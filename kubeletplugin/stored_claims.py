"""The fields of stored ResourceClaims that the plugin reads, and their opaque parameters as JSON.

A user decides how large a claim is, and a pod may name many claims: decoded as a whole, each takes megabytes. So the
parameters of other drivers are not decoded at all, those of the plugin's drivers only while a driver reads them, and no
other field is read.
"""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any, Final

import msgspec

from dra.kube.codec import ObjectIdentity
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Struct, Uid

_ABSENT: Final = msgspec.Raw(b"null")
_CONTENT: Final = msgspec.json.Decoder(dict[str, Any])


class EncodedParameters(Mapping[str, Any]):
    """Parameters that stay JSON: each access decodes the JSON again, and `items` decodes once for all fields.

    Ten kilobytes, the maximum of an entry, take more than 200 once decoded, and an allocation has up to 64 entries.
    """

    __slots__ = ("_json",)

    def __init__(self, encoded: bytes) -> None:
        self._json = encoded

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - JSON
        return _CONTENT.decode(self._json)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(_CONTENT.decode(self._json))

    def __len__(self) -> int:
        return len(_CONTENT.decode(self._json))

    def items(self) -> ItemsView[str, Any]:
        """Return all fields, decoded at once."""
        return _CONTENT.decode(self._json).items()


class StoredOpaqueConfiguration(Struct, frozen=True):
    """``config[].opaque`` of an allocation."""

    driver: str = ""
    parameters: msgspec.Raw = _ABSENT


class StoredConfiguration(Struct, frozen=True):
    """``config[]`` of an allocation; an entry that is not opaque belongs to no driver."""

    source: str = ""
    requests: tuple[str, ...] | None = None
    opaque: StoredOpaqueConfiguration | None = None


class StoredResult(Struct, frozen=True):
    """``results[]`` of an allocation, without tolerations and binding conditions, which schedulers read."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None

    def as_allocated(self) -> DeviceRequestAllocationResult:
        """Return the result as drivers get it."""
        return DeviceRequestAllocationResult(**msgspec.structs.asdict(self))


class StoredDevices(Struct, frozen=True):
    """``status.allocation.devices`` of a claim."""

    results: tuple[StoredResult, ...] | None = None
    config: tuple[StoredConfiguration, ...] | None = None


class StoredAllocation(Struct, frozen=True):
    """``status.allocation`` of a claim."""

    devices: StoredDevices = StoredDevices()


class StoredConsumer(Struct, frozen=True):
    """``status.reservedFor[]`` of a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: Uid = Uid("")


class StoredStatus(Struct, frozen=True):
    """``status`` of a claim."""

    allocation: StoredAllocation | None = None
    reserved_for: tuple[StoredConsumer, ...] | None = None


class StoredClaim(Struct, frozen=True):
    """A ResourceClaim as far as the plugin reads it."""

    metadata: ObjectIdentity
    status: StoredStatus = StoredStatus()
