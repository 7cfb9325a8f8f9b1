"""The GPUs that the cluster publishes."""

from controller.informers import ControllerInformers
from dra.engine.pod_reports.cards import CardIndex
from dra.kube.event_handlers import ignore


class CardInformer:
    """An index of cards, from the GPU driver's ResourceSlices."""

    def __init__(self, informers: ControllerInformers) -> None:
        self.cards = CardIndex()
        self.wait_for_sync = informers.card_slices.wait_for_sync
        self.on_change = informers.on_batch_end
        informers.card_slices.subscribe(self.cards.observe, self.cards.forget, restored=ignore)
