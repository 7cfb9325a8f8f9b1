"""Publishers of reasons and recorders of Events that keep what they get, for the assertions of a test."""

from controller.claim_events import ClaimEvents


class RecordedEvents:
    """A recorder that posts no Events and keeps their reasons."""

    def __init__(self):
        self.codes = []

    def record(self, event):
        """Keep the reason of an Event."""
        self.codes.append(event.reason)


class RecordedReasons:
    """The reasons that a loop has published, in their order."""

    def __init__(self):
        self.reasons = []

    def record(self, reason):
        """Keep a reason."""
        self.reasons.append(reason)

    @property
    def codes(self):
        """The codes of the reasons."""
        return [reason.code for reason in self.reasons]


class RecordingClaimEvents(ClaimEvents):
    """A publisher that passes each reason which it reports to ``recorded`` as well."""

    def __init__(self, recorded, metrics):
        super().__init__(RecordedEvents(), metrics)
        self._recorded = recorded

    def record(self, reason):
        super().record(reason)
        self._recorded.record(reason)
