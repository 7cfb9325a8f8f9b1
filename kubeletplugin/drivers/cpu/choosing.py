"""Which CPUs a claim gets: those it was allocated, or, of a group, those the rules choose. Pure.

What is chosen is remembered in the preparation's state: for each request its CPUs (containers may refer to single
requests of a claim), and what later choices have to heed.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from dra.api.parameters.cpu import CpuConfig
from dra.api.parameters.opaque import MalformedParametersError, decode
from dra.engine.cpus.accumulator import choose, satisfies
from dra.engine.cpus.binding import BindPolicy, Exclusivity, Reason, Refusal, Strategy
from dra.engine.cpus.cpusets import NO_CPUS, CpuSet, parse
from dra.engine.cpus.room import Holding, Request, Room
from dra.engine.cpus.shares import Division
from dra.engine.ledger import Holder
from dra.model import quantities
from dra.model.claims import DeviceRequestAllocationResult
from dra.model.meta import Struct
from kubeletplugin.contract import ClaimIdentity, Occupied, Preparation, PrepareRequest, Refused, base_name
from kubeletplugin.drivers.cpu.devices import CAPACITY, cpus_of, is_group


class Share(Struct, frozen=True):
    """CPUs chosen for one result."""

    cpus: CpuSet
    exclusivity: Exclusivity = Exclusivity.NONE


def divided(nobodys: Division, preparations: Iterable[Preparation]) -> Division:
    """Return who has which CPUs; `nobodys` is the machine before anybody has any."""
    held = {_holder(each.claim): _together(holding.cpus for holding in holdings(each)) for each in preparations}
    return dataclasses.replace(nobodys, holdings={who: cpus for who, cpus in held.items() if cpus})


def shares(nobodys: Division, request: PrepareRequest, others: Iterable[Preparation]) -> tuple[Share, ...]:
    """Return the CPUs of each result, in their order; adminAccess gets none. Raises Refused."""
    held = tuple(others)
    division = divided(nobodys, held)
    taken = [holding for each in held for holding in holdings(each)]
    me = _holder(request.claim)
    found: list[Share] = []
    for result in request.results:
        if result.admin_access:
            found.append(Share(cpus=NO_CPUS))
            continue
        share = _share(division, request, result, taken=taken, others=held)
        now = division.hold(me, division.holdings.get(me, NO_CPUS) | share.cpus)
        if isinstance(now, str):
            raise (Occupied if share.cpus & division.held else Refused)(now)
        division = now
        taken.append(Holding(cpus=share.cpus, exclusivity=share.exclusivity))
        found.append(share)
    return tuple(found)


def state(request: PrepareRequest, chosen: Iterable[Share]) -> dict[str, Any]:
    """Return what is remembered of a choice."""
    of_requests: dict[str, CpuSet] = {}
    remembered = []
    for result, share in zip(request.results, chosen, strict=True):
        if share.cpus:
            name = base_name(result.request)
            of_requests[name] = of_requests.get(name, NO_CPUS) | share.cpus
            remembered.append({"cpus": str(share.cpus), "exclusivity": share.exclusivity.value})
    return {"requests": {name: str(cpus) for name, cpus in of_requests.items()}, "holdings": remembered}


def requests(preparation: Preparation) -> Mapping[str, CpuSet]:
    """Return the CPUs of each request of a prepared claim."""
    return {name: parse(cpus) for name, cpus in preparation.state.get("requests", {}).items()}


def holdings(preparation: Preparation) -> tuple[Holding, ...]:
    """Return what a prepared claim holds."""
    return tuple(
        Holding(cpus=parse(each["cpus"]), exclusivity=Exclusivity(each["exclusivity"]))
        for each in preparation.state.get("holdings", ())
    )


def _share(
    division: Division,
    request: PrepareRequest,
    result: DeviceRequestAllocationResult,
    *,
    taken: list[Holding],
    others: Iterable[Preparation],
) -> Share:
    where = f"{request.claim}: device {result.device}"
    all_of = cpus_of(result.device, division.topology)
    if not all_of:
        raise Refused(
            f"{where}: has no CPU that is online ({division.topology.online} are); delete the claim's pods, "
            "so that it is allocated anew"
        )
    config = _config(request, result, where=where)
    room = Room(topology=division.topology, allocatable=all_of & division.allocatable, holdings=tuple(taken))
    wish = Request(
        count=_count(result, where=where) if is_group(result.device) else len(all_of),
        policy=BindPolicy(config.bind_policy),
        required=config.required_bind_policy is not None,
        exclusivity=Exclusivity(config.exclusivity),
        strategy=Strategy(config.strategy),
    )
    if not is_group(result.device):
        _check(room, request, wish, where=where)
        return Share(cpus=all_of, exclusivity=wish.exclusivity)
    chosen = choose(room, wish)
    if isinstance(chosen, Refusal):
        alone = choose(Room(topology=room.topology, allocatable=room.allocatable, holdings=()), wish)
        holders = _holders(others, of=all_of)
        if isinstance(alone, Refusal) or not holders:
            raise Refused(f"{where}: {chosen}")
        raise Occupied(
            f"{where}: {chosen}; held are {holders}; it starts once pods of these claims on this node have ended"
        )
    return Share(cpus=chosen, exclusivity=wish.exclusivity)


def _holders(others: Iterable[Preparation], *, of: CpuSet) -> str:
    """Return which claims have CPUs of a group; empty if none has."""
    theirs = ((each.claim, _together(holding.cpus for holding in holdings(each)) & of) for each in others)
    return ", ".join(f"{cpus} by {claim}" for claim, cpus in theirs if cpus)


def _check(room: Room, request: PrepareRequest, wish: Request, *, where: str) -> None:
    """Raise Refused if the scheduler's choice is not what is required, all single CPUs of the claim together."""
    single = CpuSet(
        cpu
        for each in request.results
        if not is_group(each.device) and not each.admin_access
        for cpu in cpus_of(each.device, room.topology)
    )
    if not satisfies(room, wish, single):
        refusal = Refusal(reason=Reason.POLICY_UNSATISFIED, subject=wish.policy)
        raise Refused(
            f"{where}: {refusal}: the scheduler chose CPUs {single}; constrain its choice "
            "(matchAttribute, distinctAttribute), or let the driver choose: --cpu-devices grouped"
        )


def _config(request: PrepareRequest, result: DeviceRequestAllocationResult, *, where: str) -> CpuConfig:
    entries = request.parameters_of(result)
    if not entries:
        return CpuConfig()
    try:
        return decode(entries[-1], CpuConfig)
    except MalformedParametersError as error:
        raise Refused(f"{where}: parameters: {error}") from error


def _count(result: DeviceRequestAllocationResult, *, where: str) -> int:
    """Return how many CPUs of a group were allocated."""
    amount = (result.consumed_capacity or {}).get(CAPACITY)
    if amount is None:
        raise Refused(
            f"{where}: the allocation does not say how many CPUs ({CAPACITY}): does the cluster know consumable "
            "capacity (DRAConsumableCapacity)? Use --cpu-devices individual otherwise"
        )
    try:
        number = quantities.parse(amount)
    except quantities.MalformedQuantityError as error:
        raise Refused(f"{where}: {CAPACITY}: {error}") from error
    if number.denominator != 1 or number < 1:
        raise Refused(f"{where}: {Refusal(reason=Reason.NOT_INTEGER, detail=f'{amount} were allocated')}")
    return int(number)


def _holder(claim: ClaimIdentity) -> Holder:
    return Holder(kind="claim", key=claim.key, uid=claim.uid)


def _together(sets: Iterable[CpuSet]) -> CpuSet:
    return CpuSet(cpu for cpus in sets for cpu in cpus)
