"""The GPUs that the cluster publishes, which pod reports and templates share."""

from controller.informers import ControllerInformers
from dra.engine.pod_reports.cards import CardIndex
from dra.engine.translation.card_sizes import CardSizes
from dra.kube.event_handlers import ignore
from dra.model.slices import ResourceSlice


class CardInformer:
    """An index of cards and an index of their sizes, from the GPU driver's ResourceSlices."""

    def __init__(self, informers: ControllerInformers) -> None:
        self.cards = CardIndex()
        self.sizes = CardSizes()
        self.wait_for_sync = informers.card_slices.wait_for_sync
        self.on_change = informers.on_batch_end
        informers.card_slices.subscribe(self._observe, self._forget, restored=ignore)

    def _observe(self, found: ResourceSlice) -> None:
        self.cards.observe(found)
        self.sizes.observe_slice(found)

    def _forget(self, found: ResourceSlice) -> None:
        self.cards.forget(found)
        self.sizes.forget_slice(found.metadata.name)
