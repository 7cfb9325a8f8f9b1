"""The informer of the GPUs that the cluster publishes, which pod reports and templates share."""

from collections.abc import Callable
from typing import Final

from controller.optional_part import InformerPart
from dra.api.koordinator.well_known import GPU_DRIVER
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.translation.card_sizes import CardSizes
from dra.kube.client import Client, Selection
from dra.kube.clock import Clock
from dra.kube.event_handlers import EventHandlerFuncs, ignore
from dra.kube.reflector import Reflector
from dra.kube.resources import SLICES
from dra.model.slices import ResourceSlice

CARD_SLICES: Final = Selection(fields=f"spec.driver={GPU_DRIVER}")


class CardInformer(InformerPart):
    """The reflector of the GPU driver's ResourceSlices, with an index of cards and an index of their sizes."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self.cards = CardIndex()
        self.sizes = CardSizes()
        self._listeners: list[Callable[[], None]] = []
        super().__init__(
            Reflector(
                client,
                SLICES,
                ResourceSlice,
                handler=EventHandlerFuncs[ResourceSlice](
                    on_upsert=self._observe, on_delete=self._forget, on_restore=ignore, on_batch_end=self._notify
                ),
                selection=CARD_SLICES,
                clock=clock,
            )
        )

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener after each batch of changes."""
        self._listeners.append(listener)

    def _observe(self, found: ResourceSlice) -> None:
        self.cards.observe(found)
        self.sizes.observe_slice(found)

    def _forget(self, found: ResourceSlice) -> None:
        self.cards.forget(found)
        self.sizes.forget_slice(found.metadata.name)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
