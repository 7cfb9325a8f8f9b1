"""Jobs at certain points of their migration, and the outcomes that tests expect."""

from tests.dra.engine.migration.world import World

EXPIRED, TIMEOUT = ("Failed", "ReservationExpired"), ("Failed", "Timeout")
FORBIDDEN, MISSING = ("Failed", "ForbiddenMigratePod"), ("Failed", "MissingPod")


def supplied(**parts):
    return {"spec": {"reservationOptions": {"reservationRef": {"name": "kept"}}, **parts}}


def reserved(world: World) -> World:
    """Bring a job to the point at which its Reservation exists and has no node yet."""
    world.settle()
    assert world.reservation is not None
    return world


def held(world: World) -> World:
    """Bring a job to the point at which it asks for the eviction."""
    reserved(world).place()
    world.evict_error = "too many requests"
    world.settle()
    assert world.condition("Eviction") == ("False", "Evicting")
    return world


def evicted(world: World) -> World:
    """Bring a job to the point at which its pod is gone."""
    reserved(world).place()
    world.settle()
    world.end()
    world.settle()
    assert world.condition("Eviction") == ("True", "EvictComplete")
    return world


def bound(world: World) -> World:
    """Bring a job to the point at which a pod uses its Reservation."""
    evicted(world).bind()
    world.settle()
    assert world.condition("BoundPodReady") == ("False", "WaitForBoundPodReady")
    return world


def outcome(world: World) -> tuple[str, str]:
    world.settle()
    return world.status.get("phase", ""), world.status.get("reason", "")
