"""What the simulation raises when something has happened that must never happen."""


class Violation(AssertionError):  # noqa: N818 - it is no error of the program that raises it
    """An invariant is broken; the text names the objects."""
