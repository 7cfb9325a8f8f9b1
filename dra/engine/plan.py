"""The plan that a decision returns: what to do now, and when to decide again if nothing changes."""

from typing import Generic, TypeVar

from dra.engine.instants import NEVER, Instant, WallTime
from dra.model.meta import Struct

A = TypeVar("A")
R = TypeVar("R")


class Plan(Struct, Generic[A, R], frozen=True):
    """The actions of a decision in their order, and the states to report once all of them have succeeded."""

    actions: tuple[A, ...] = ()
    reasons: tuple[R, ...] = ()
    wake_at: Instant = NEVER
    """When to decide again."""

    wake_at_wall: WallTime = NEVER
    """When to decide again, where the API sets the deadline; the earlier of both counts."""
