"""A publisher of reasons that tells a test of each reason."""

from controller.claim_events import ClaimEvents


class Nobody:
    """A recorder of Events that posts none."""

    def record(self, event):
        """Drop an Event."""


class ToldEvents(ClaimEvents):
    """Passes what it reports to ``told.record``."""

    def __init__(self, told, metrics):
        super().__init__(Nobody(), metrics)
        self._told = told

    def record(self, reason):
        super().record(reason)
        self._told.record(reason)
