"""The ledger of devices: which claim or reservation holds which devices and CPUs.

One class serves all uses, with one instance per process. The ledger is a cache, never the truth: it is rebuilt from the
API objects or from the node's checkpoint. A legal claim is never refused:

* a result with adminAccess holds nothing;
* a result with a shareID holds its share, so that shares of one device coexist (and its consumed capacity with it:
  the scheduler has added it up);
* devices that draw on shared counters have names of their own; which partitions coexist is decided by the scheduler.
"""

from collections.abc import Iterable, Iterator

from dra.model.claims import AllocationResult
from dra.model.meta import Key, Struct, Uid


class DeviceID(Struct, frozen=True):
    """The identity of a device or of a share of one, which one holder at a time has.

    CPUs are devices of pool and number.
    """

    driver: str
    pool: str
    device: str
    share: str = ""

    def __str__(self) -> str:
        name = f"{self.driver}/{self.pool}/{self.device}"
        return f"{name} (share {self.share})" if self.share else name

    @property
    def whole(self) -> "DeviceID":
        """Return the device that the share belongs to."""
        return DeviceID(driver=self.driver, pool=self.pool, device=self.device) if self.share else self


class Holder(Struct, frozen=True):
    """The holder of devices, identified by uid; kind and key are for messages."""

    kind: str
    key: Key
    uid: Uid

    def __str__(self) -> str:
        return f"{self.kind} {'/'.join(part for part in self.key if part)} (uid {self.uid})"


class DeviceConflict(Struct, frozen=True):
    """The conflict for which the ledger refused a hold."""

    item: DeviceID
    holder: Holder
    refused: Holder

    def __str__(self) -> str:
        return f"device {self.item} is held by {self.holder}, refused to {self.refused}"


def allocated_devices(allocation: AllocationResult) -> frozenset[DeviceID]:
    """Return the devices and shares that an allocation holds exclusively."""
    return frozenset(
        DeviceID(driver=r.driver, pool=r.pool, device=r.device, share=r.share_id or "")
        for r in allocation.devices.results or ()
        if not r.admin_access
    )


class Ledger:
    """The ledger of devices and their holders."""

    def __init__(self) -> None:
        self._holders: dict[DeviceID, Holder] = {}
        self._shares: dict[DeviceID, set[DeviceID]] = {}
        self._items: dict[Uid, frozenset[DeviceID]] = {}

    def hold(self, holder: Holder, items: Iterable[DeviceID]) -> DeviceConflict | None:
        """Assign all items to the holder, in place of its previous items.

        On a conflict, change nothing and return the conflict.
        """
        wanted = frozenset(items)
        for item in sorted(wanted, key=str):
            for other in self._conflicting_holders(item):
                if other.uid != holder.uid:
                    return DeviceConflict(item=item, holder=other, refused=holder)
        self._drop_items(holder.uid)
        for item in wanted:
            self._holders[item] = holder
            if item.share:
                self._shares.setdefault(item.whole, set()).add(item)
        self._items[holder.uid] = wanted
        return None

    def release(self, uid: Uid) -> frozenset[DeviceID]:
        """Release all items of the holder and return them; an unknown holder has none."""
        return self._drop_items(uid)

    def holder(self, item: DeviceID) -> Holder | None:
        """Return the holder of exactly this item."""
        return self._holders.get(item)

    def is_free(self, item: DeviceID) -> bool:
        """Return whether a new holder could have the item.

        The item is free if neither the item itself, nor its whole device, nor a share of it is held.
        """
        if item in self._holders:
            return False
        return (not item.share and item not in self._shares) or next(self._conflicting_holders(item), None) is None

    def items(self, uid: Uid) -> frozenset[DeviceID]:
        """Return the items of a holder."""
        return self._items.get(uid, frozenset())

    def without(self, uid: Uid) -> "Ledger":
        """Return a copy in which the holder has no items: the state after a release of all its items."""
        copy = Ledger()
        copy._holders = dict(self._holders)
        copy._shares = {whole: set(shares) for whole, shares in self._shares.items()}
        copy._items = dict(self._items)
        copy.release(uid)
        return copy

    def __len__(self) -> int:
        return len(self._holders)

    def _conflicting_holders(self, item: DeviceID) -> Iterator[Holder]:
        """Yield the holders of the item itself, of the whole device it is a share of, and of its shares."""
        for candidate in (item, item.whole, *self._shares.get(item, ())):
            holder = self._holders.get(candidate)
            if holder is not None:
                yield holder

    def _drop_items(self, uid: Uid) -> frozenset[DeviceID]:
        freed = self._items.pop(uid, frozenset())
        for item in freed:
            del self._holders[item]
            if item.share:
                shares = self._shares[item.whole]
                shares.discard(item)
                if not shares:
                    del self._shares[item.whole]
        return freed
