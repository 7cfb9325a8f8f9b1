"""Virtual time."""

from dra.engine.instants import Instant


class Clock:
    """A number that only the machine moves."""

    def __init__(self) -> None:
        self.now: Instant = 0.0

    @property
    def stamp(self) -> str:
        """The present as an API timestamp: whole seconds, like ``metav1.Time``, so two changes may share one."""
        return f"{int(self.now)}s"
