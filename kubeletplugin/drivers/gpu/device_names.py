"""Names of GPUs as devices: a name belongs to one card, and to no other card later.

Claims are allocated by name, and minors move: after a reboot or a reload of the kernel driver, the GPU with
minor 1 may have minor 0, because another one died. So a card keeps the name with which it was published
first, and a dead card's name stays its own: a claim may hold the name, prepared or not. A new card gets the name of its
minor (``gpu-<minor>``) if no other card has had that name, else the lowest free number.

The file ``device-names.json`` in the driver's directory keeps the names over restarts. An older build ignores the file
and names GPUs by minor; what its claims hold is in the checkpoint, from which cards are adopted.

A card is identified by its uuid. A card that reports none is identified by PCI address and model. If a card reports no
uuid, and the card that was at its address had one, nobody knows whether it is the same: it keeps the name, with a
fault.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from dra.model.meta import Struct
from kubeletplugin.atomic_files import read_durably, write_atomically
from kubeletplugin.inventory.gpus import DUPLICATE_UUID, GPU_LOST, UNKNOWN_UUID, Gpu, GpuFault

DEVICE_NAMES_FILE: Final = "device-names.json"

MAX_ABSENT_CARDS: Final = 512
"""Maximum number of absent cards that keep their names; of others the oldest are forgotten unless a claim has them.

Cloud machines may get other cards at each start: 64 starts of a machine with eight.
"""

_VERSION: Final = 1
_MODE: Final = 0o600


class Card(Struct, frozen=True):
    """The identity of a GPU, whatever its minor and index are."""

    uuid: str = ""
    pci_bus_id: str = ""
    product: str = ""

    def __str__(self) -> str:
        return f"GPU {self.uuid}" if self.uuid else f"{self.product or 'GPU'} at {self.pci_bus_id or '?'}"

    @property
    def known(self) -> bool:
        """Whether the identity distinguishes the GPU from others."""
        return bool(self.uuid or self.pci_bus_id)

    def is_same(self, other: "Card") -> bool:
        """Report whether both are certainly the same GPU."""
        if self.uuid and other.uuid:
            return self.uuid == other.uuid
        if self.uuid:  # the other one does not tell
            return False
        return bool(self.pci_bus_id) and self.is_at_address_of(other)

    def is_at_address_of(self, other: "Card") -> bool:
        """Report whether both are of one model at one PCI address."""
        same_product = self.product == other.product or not self.product or not other.product
        return self.pci_bus_id == other.pci_bus_id and same_product


class DeviceNamesError(OSError):
    """The file of names cannot be read; the text names the remedy."""


class _Entry(Card, frozen=True, kw_only=True):
    name: str


class _Document(Struct, frozen=True):
    version: int
    devices: tuple[_Entry, ...] = ()


def card_of(gpu: Gpu) -> Card:
    """Return the identity of a GPU."""
    return Card(uuid=gpu.uuid, pci_bus_id=gpu.pci_bus_id, product=gpu.product)


def assign_names(gpus: Iterable[Gpu], known: Mapping[str, Card]) -> tuple[Gpu, ...]:
    """Return the GPUs with their names, given the cards of known names; doubtful GPUs also get a fault."""
    unnamed = sorted(_with_duplicates_marked(tuple(gpus)), key=_preference)
    named: dict[str, Gpu] = {}
    names: defaultdict[str, list[str]] = defaultdict(list)  # by uuid, and by address
    for name, card in known.items():
        for key in filter(None, (card.uuid, card.pci_bus_id)):
            names[key].append(name)

    def name_by(is_known: Callable[[Card, Card], bool], gpu: Gpu) -> str:
        candidates = (*names.get(gpu.uuid, ()), *names.get(gpu.pci_bus_id, ()))
        return next((n for n in candidates if n not in named and is_known(known[n], card_of(gpu))), "")

    for is_known in (_is_named_by_address_too, _is_named, _is_doubtful):
        rest, unnamed = unnamed, []
        for gpu in rest:
            if name := name_by(is_known, gpu):
                named[name] = _with_doubt(gpu, known[name]) if is_known is _is_doubtful else gpu
            else:
                unnamed.append(gpu)
    rest, unnamed = unnamed, []
    for gpu in rest:
        if gpu.name in known or gpu.name in named:
            unnamed.append(gpu)
        else:
            named[gpu.name] = gpu
    named |= dict(zip(_free_names(known.keys() | named.keys()), unnamed, strict=False))
    return tuple(sorted((replace(gpu, device_name=name) for name, gpu in named.items()), key=_order))


class DeviceNames:
    """The names of this node's GPUs; kept in a file if there is a path."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._recorded: dict[str, Card] = {}
        """The content of the file; without a file, what it would contain."""
        self._adopted: dict[str, Card] = {}
        """Cards of claims that a build without the file prepared."""
        self._assigned: dict[str, Card] = {}
        """Cards that got names since, and are not published yet."""
        self._complete: Collection[Gpu] | None = None
        """The GPUs of the last call of `record`, if the file has all their names."""

    def assign(self, gpus: Iterable[Gpu]) -> tuple[Gpu, ...]:
        """Return the GPUs with their names; raises DeviceNamesError."""
        self._read()
        known = self._known
        named = assign_names(gpus, known)
        self._assigned |= {gpu.name: _merged(known.get(gpu.name), gpu) for gpu in named if card_of(gpu).known}
        return named

    def adopt(self, held: Iterable[tuple[str, Card]]) -> bool:
        """Learn the cards that claims hold by name, where neither has been recorded; return whether there were some.

        Raises DeviceNamesError.
        """
        self._read()
        before = dict(self._adopted)
        for name, card in held:
            if name in self._recorded:
                continue
            certain = self._adopted | self._recorded
            if card.known and name not in certain and not any(other.is_same(card) for other in certain.values()):
                self._adopted[name] = card
        if self._adopted == before:
            return False
        adopted = self._adopted.items()
        self._assigned = {
            name: card
            for name, card in self._assigned.items()
            if not any(name == other or held_card.is_same(card) for other, held_card in adopted)
        }
        return True

    def record(self, gpus: Collection[Gpu], *, held: AbstractSet[str]) -> None:
        """Record the names of GPUs before these are published; raises OSError.

        `held` are the names that claims have. The same collection once more costs a look at the file.
        """
        there = self._read()
        removed = not there and self._seen is not None
        if gpus is self._complete and not self._adopted and not removed:
            return
        known = self._known
        present = {gpu.name: _merged(known.get(gpu.name), gpu) for gpu in gpus if card_of(gpu).known}
        self._assigned |= present
        self._complete = gpus
        if not removed and all(self._recorded.get(name) == card for name, card in (self._adopted | present).items()):
            return
        self._complete = None
        absent = {name: card for name, card in self._known.items() if name not in present}
        unclaimed = [name for name in absent if name not in held]
        for name in unclaimed[: max(0, len(absent) - MAX_ABSENT_CARDS)]:
            del absent[name]
        self._write(absent | present)

    @property
    def _known(self) -> Mapping[str, Card]:
        later = self._assigned | self._adopted
        return self._recorded | {name: card for name, card in later.items() if name not in self._recorded}

    def is_recorded(self, name: str) -> bool:
        """Report whether the card of a name is recorded."""
        return name in self._recorded

    def _write(self, content: dict[str, Card]) -> None:
        if self._path is not None:
            entries = tuple(_Entry(name=name, **msgspec.structs.asdict(card)) for name, card in content.items())
            body = msgspec.json.format(msgspec.json.encode(_Document(version=_VERSION, devices=entries)), indent=1)
            state = write_atomically(self._path, body + b"\n", mode=_MODE, sync=True)
            self._seen = (state.st_ino, state.st_mtime_ns, state.st_size)
        self._recorded, self._adopted, self._assigned = content, {}, {}

    def _read(self) -> bool:
        """Read the file if another instance of the plugin has written it; return whether there is one."""
        if self._path is None:
            return True
        try:
            state = self._path.stat()
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen == self._seen:
                return True
            document = msgspec.json.decode(read_durably(self._path), type=_Document)
        except FileNotFoundError:
            return False  # nothing was ever published, or the file was removed while its content is known here
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise self._unreadable(str(error)) from error
        if document.version != _VERSION:
            raise self._unreadable(f"version {document.version} is not supported")
        self._recorded, self._seen = {device.name: _card(device) for device in document.devices}, seen
        self._complete = None
        return True

    def _unreadable(self, flaw: str) -> DeviceNamesError:
        return DeviceNamesError(
            f"file {self._path}: cannot be read ({flaw}), so that nobody knows which GPU a claim was allocated; "
            "restore the file. If you cannot: delete all pods on this node that use its GPUs, and remove the file"
        )


def _card(entry: _Entry) -> Card:
    return Card(uuid=entry.uuid, pci_bus_id=entry.pci_bus_id, product=entry.product)


def _merged(known: Card | None, gpu: Gpu) -> Card:
    """Return what to record of a GPU: a uuid that it does not tell now is kept."""
    card = card_of(gpu)
    return card if known is None or card.uuid or not known.uuid else known


def _is_named_by_address_too(known: Card, card: Card) -> bool:
    return known.is_same(card) and known.pci_bus_id == card.pci_bus_id


def _is_named(known: Card, card: Card) -> bool:
    return known.is_same(card)


def _is_doubtful(known: Card, card: Card) -> bool:
    return bool(known.uuid) and not card.uuid and bool(card.pci_bus_id) and known.is_at_address_of(card)


def _with_doubt(gpu: Gpu, known: Card) -> Gpu:
    message = (
        f"the GPU at {gpu.pci_bus_id} reports no uuid, so that it cannot be told from {known}, which was there before; "
        f"run {gpu.list_command or 'the tool of its vendor'} on the node"
    )
    return replace(gpu, faults=(*gpu.faults, GpuFault(reason=UNKNOWN_UUID, message=message)))


def _with_duplicates_marked(gpus: tuple[Gpu, ...]) -> Iterator[Gpu]:
    """Yield the GPUs, with a fault where several present ones report the same uuid."""
    times = Counter(gpu.uuid for gpu in gpus if gpu.uuid and not _is_lost(gpu))
    for gpu in gpus:
        if times[gpu.uuid] > 1 and not _is_lost(gpu):
            alike = [other for other in gpus if other.uuid == gpu.uuid]
            places = ", ".join(sorted(other.pci_bus_id or f"minor {other.minor}" for other in alike))
            fault = GpuFault(
                reason=DUPLICATE_UUID,
                message=f"several GPUs report uuid {gpu.uuid}: {places}; take out or reset all but one",
            )
            yield replace(gpu, faults=(*gpu.faults, fault))
        else:
            yield gpu


def _is_lost(gpu: Gpu) -> bool:
    return any(fault.reason == GPU_LOST for fault in gpu.faults)


def _preference(gpu: Gpu) -> tuple[bool, int, str]:
    """Return the order in which GPUs get names: a lost one, whose minor is of former times, after all others."""
    return (_is_lost(gpu), gpu.minor, gpu.pci_bus_id)


def _order(gpu: Gpu) -> tuple[int, str]:
    digits = gpu.name.removeprefix("gpu-")
    return (int(digits) if digits.isdecimal() else 0, gpu.name)


def _free_names(taken: AbstractSet[str]) -> Iterator[str]:
    return (name for number in count() if (name := f"gpu-{number}") not in taken)
