"""The part of the controller's configuration that decisions about reservations read."""

from dra.api.configuration import PlaceholderMode
from dra.api.reservations.well_known import PAUSE_IMAGE
from dra.model.meta import Struct


class ReservationPolicy(Struct, frozen=True):
    """The modes in which capacity is held."""

    placeholders: PlaceholderMode = PlaceholderMode.REPLACED
    placeholder_image: str = PAUSE_IMAGE
    supports_claims: bool = False
    """Whether the claims of templates can be held."""
    translates_requests: bool = False
    """Whether pods that request bound CPUs get a claim for them (``koordinator: true``)."""
