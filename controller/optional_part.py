"""The parts of the controller that a configuration switches on, as the application sees them."""

from dra.model.meta import Key


class OptionalPart:
    """A part of the controller with informers and a loop of its own; a hook that it does not override does nothing.

    The hooks are called for the objects that the informers of the claim loop observe, so that no kind is watched
    twice.
    """

    async def watch(self) -> None:
        """Watch what no other part watches, until cancelled."""

    async def run(self) -> None:
        """Do the work of a leader, until cancelled."""

    def not_ready_reasons(self) -> list[str]:
        """Return the staleness of the part's own informers; empty when ready."""
        return []

    def claim_changed(self, key: Key, /) -> None:
        """Handle a claim from a list or a watch."""

    def claim_deleted(self, key: Key, /) -> None:
        """Handle a deleted claim."""
