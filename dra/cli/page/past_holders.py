"""The claims that held devices before, as far as the page has seen."""

from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from dra.engine.diagnosis.devices import DeviceUsage
from dra.kube.clock import rfc3339

DEVICES_MAX: Final = 5_000
"""Maximum number of devices whose past holders are remembered; beyond it, the one whose last change is oldest goes."""

HOLDERS_MAX: Final = 10
"""Maximum number of past holders of one device."""


class PastHolders:
    """The claims that do not hold a device any more, by device."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def observe(self, before: DeviceUsage, after: DeviceUsage | None, *, now: datetime) -> None:
        """Remember the claims that no longer hold a device."""
        gone = [key for key in before.holders if after is None or key not in after.holders]
        if not gone:
            return
        device = str(before.item)
        texts = tuple(f"claim {'/'.join(key)}, until {rfc3339(now)}" for key in gone)
        self._texts[device] = (texts + self._texts.pop(device, ()))[:HOLDERS_MAX]
        if len(self._texts) > DEVICES_MAX:
            self._texts.popitem(last=False)

    def texts(self, device: str) -> Iterator[str]:
        """Yield the past holders of a device, the latest first."""
        yield from self._texts.get(device, ())
