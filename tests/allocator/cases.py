"""Questions to allocators, made from a seed: a node, what drivers offer to it, what is in use, and one or two claims.

A question is JSON as tests/cluster/allocator reads it. What an API server would refuse is not asked, but for pools that
contradict themselves: nobody checks a pool as a whole.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final
from uuid import UUID

Json = dict[str, Any]

NODE: Final = "n1"
DRIVERS: Final = ("a.example", "b.example")
COLOR: Final = 'device.attributes["a.example"].color'

CLASSES: Final = {
    "any": [],
    "a": ['device.driver == "a.example"'],
    "red": ['device.driver == "a.example"', f'has({COLOR}) && {COLOR} == "red"'],
    "bold": ['device.driver == "a.example"', f'{COLOR} == "red"'],  # fails on devices that have no color
    "shared": ["device.allowMultipleAllocations == true"],
}
PLACES: Final = (
    *[{"nodeName": NODE}] * 12,
    {"nodeName": "n2"},
    {"allNodes": True},
    {
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
        }
    },
    {
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]
        }
    },
)
POLICIES: Final = (
    None,
    None,
    {"default": "1"},
    {"default": "0"},
    {"default": "2", "validRange": {"min": "2", "max": "4", "step": "2"}},
    {"default": "1", "validRange": {"min": "1"}},
    {"default": "1", "validRange": {"min": "1", "max": "3"}},
    {"default": "1", "validValues": ["1", "2", "4"]},
    {"default": "500m", "validRange": {"min": "500m", "max": "2500m", "step": "250m"}},
    {"default": "0.5", "validRange": {"min": "0", "step": "0.5"}},
    {"default": "1e0", "validRange": {"min": "1e0", "max": "3", "step": "1e0"}},
    {"default": "1500m", "validValues": ["500m", "1500m", "3e0"]},
)
FINE_POLICIES: Final = (
    *POLICIES,
    {"default": "1", "validRange": {"min": "1", "max": "4", "step": "1500m"}},
    {"default": "250m", "validRange": {"min": "250m", "step": "250m"}},
)
"""Policies that an API server takes with DRAFractionalCapacityRange: without it, all bounds are rounded up."""

VERSIONS: Final = ("1.0.0", "1.0.0+a", "1.0.0+b", "1.0.0-rc.1", "1.0.0-rc.1+a", "2.0.0")

AMOUNTS: Final = ("0", "1", "1", "2", "3", "5", "1500m", "1500m", "0.75", "2e0", "250m", "2.25")

LARGE_POLICIES: Final = (
    None,
    None,
    {"default": "1Gi"},
    {"default": "1Gi", "validRange": {"min": "512Mi", "max": "3Gi", "step": "256Mi"}},
    {"default": "1G", "validRange": {"min": "500M", "step": "500M"}},
    {"default": "1Ki", "validRange": {"min": "0", "step": "1Ki"}},
    {"default": "0.5Gi", "validValues": ["0.5Gi", "1e9", "1536Mi"]},
)
LARGE_AMOUNTS: Final = ("1", "1Ki", "700Mi", "1.5Gi", "1e9", "1250M", "1073741824", "3000Mi", "100k", "1000.5")


def question(seed: int) -> Json:
    """Return the question of a seed."""
    chance = Random(seed)  # noqa: S311 - the same question each time, no secret
    lists = chance.random() < 0.2
    fractional = chance.random() < 0.3
    pools = [_pool(chance, number, lists=lists, fractional=fractional) for number in range(chance.choice([1, 1, 2, 3]))]
    slices = [each for pool in pools for each in pool]
    claims = [_claim(chance, f"c{number}") for number in range(chance.choice([1, 1, 2]))]
    held = list(_held(chance, slices))
    if chance.random() < 0.3:
        _respell(chance, slices, claims, held)
    return {
        "node": {"metadata": {"name": NODE, "labels": {"zone": "a"}}},
        "slices": slices,
        "classes": [_class(name, expressions) for name, expressions in CLASSES.items()],
        "claims": claims,
        "held": held,
        "lists": lists,
        "fractional": fractional,
    }


def _class(name: str, expressions: list[str]) -> Json:
    spec: Json = {"selectors": [{"cel": {"expression": each}} for each in expressions]}
    return {"metadata": {"name": name}, "spec": spec if expressions else {}}


def _pool(chance: Random, number: int, *, lists: bool, fractional: bool) -> list[Json]:
    """Return the slices of a pool: devices in one or two of them, and counters in another."""
    driver = chance.choice((DRIVERS[0], *DRIVERS))
    counted = chance.random() < 0.4
    spread = chance.random() < 0.15
    place = chance.choice(PLACES)
    several = chance.choice([1, 1, 2])
    slices = []
    for index in range(several):
        devices = [
            _device(
                chance, f"d{index * (chance.random() > 0.02)}{i}", counted=counted, lists=lists, fractional=fractional
            )
            for i in range(chance.choice([0, 1, 2, 3, 4, 5, 6]))
        ]
        if spread:
            devices = [{**each, **chance.choice(PLACES)} for each in devices]
        where = {"perDeviceNodeSelection": True} if spread else place if index == 0 else chance.choice((place, *PLACES))
        slices.append({**where, "devices": devices})
    if counted:
        sets = [{"name": "set", "counters": {"memory": {"value": str(chance.randint(1, 5))}, "cores": {"value": "2"}}}]
        slices.append({**({"allNodes": True} if spread else place), "sharedCounters": sets})
    count = len(slices) + (chance.random() < 0.05)
    pool = {"name": f"p{chance.randint(0, 9)}{number}", "generation": 2, "resourceSliceCount": count}
    older = [{**place, "devices": [_device(chance, "old", counted=False, lists=lists, fractional=fractional)]}] * (
        chance.random() < 0.05
    )
    return [
        {
            "metadata": {"name": f"{pool['name']}-{chance.randint(0, 99):02}-{index}"},
            "spec": {"driver": driver, "pool": pool | {"generation": 1} if index == len(slices) else pool, **each},
        }
        for index, each in enumerate([*slices, *older])
    ]


def _device(chance: Random, name: str, *, counted: bool, lists: bool, fractional: bool) -> Json:
    found: Json = {"name": name, "attributes": {}}
    if chance.random() < 0.85:
        found["attributes"]["color"] = {"string": chance.choice(["red", "blue"])}
    if chance.random() < 0.8:
        numa = chance.randint(0, 2)
        several = {"ints": chance.sample(range(4), chance.randint(1, 2))}
        found["attributes"]["a.example/numa"] = several if lists and chance.random() < 0.6 else {"int": numa}
    found |= _capacity(chance, FINE_POLICIES if fractional else POLICIES)
    if chance.random() < 0.1:
        found["taints"] = [
            {"key": chance.choice("kl"), "value": "v", "effect": chance.choice(["NoSchedule", "NoExecute"])}
        ]
    if chance.random() < 0.07:
        found |= {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Lost"], "bindsToNode": True}
    if counted and chance.random() < 0.7:
        drawn = {"memory": {"value": str(chance.randint(1, 3))}}
        if chance.random() < 0.3:
            drawn["cores" if chance.random() < 0.9 else "unheard-of"] = {"value": "1"}
        found["consumesCounters"] = [{"counterSet": "set", "counters": drawn}]
    return found


def _capacity(chance: Random, policies: Sequence[Json | None]) -> Json:
    """Return how much a device has, and whether it is shared: an API server takes policies of shared devices only."""
    capacity: Json = {}
    if chance.random() < 0.5:
        capacity["memory"] = {"value": chance.choice([*"123456", "5500m"])}
    if chance.random() < 0.2:
        capacity["large"] = {"value": chance.choice(["4Gi", "6Gi", "5e9", "6G"])}
    found: Json = {"capacity": capacity} if capacity else {}
    if chance.random() < 0.4:
        found["allowMultipleAllocations"] = True
        for name, those in (("memory", policies), ("large", LARGE_POLICIES)):
            if name in capacity and (policy := chance.choice(those)):
                value = chance.choice("456") if name == "memory" else "4Gi"
                capacity[name] = {"value": value, "requestPolicy": policy}
    return found


def _claim(chance: Random, name: str) -> Json:
    names = [f"r{i}" for i in range(chance.choice([1, 1, 2, 3]))]
    requests = [_request(chance, each) for each in names]
    known = names + [f"{r['name']}/{s['name']}" for r in requests for s in r.get("firstAvailable", ())]
    kinds = ["matchAttribute", "matchAttribute", "distinctAttribute"]
    constraints = []
    for _ in range(chance.choice([0, 0, 0, 0, 1, 1, 2])):
        constraint: Json = {
            chance.choice(kinds): chance.choice(["a.example/numa", "a.example/numa", "a.example/color"])
        }
        if chance.random() < 0.5:
            constraint["requests"] = sorted(chance.sample(known, chance.randint(1, len(known))))
        constraints.append(constraint)
    devices = {"requests": requests, "constraints": constraints}
    return {"metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"}, "spec": {"devices": devices}}


def _request(chance: Random, name: str) -> Json:
    if chance.random() < 0.75:
        asked = _ask(chance)
        return {"name": name, "exactly": asked | ({"adminAccess": True} if chance.random() < 0.15 else {})}
    return {"name": name, "firstAvailable": [{"name": f"s{i}", **_ask(chance)} for i in range(chance.randint(1, 3))]}


def _ask(chance: Random) -> Json:
    asked: Json = {"deviceClassName": chance.choice([*["any"] * 6, "a", "a", "red", "bold", "shared"])}
    if chance.random() < 0.2:
        asked["allocationMode"] = "All"
    else:
        asked |= {"allocationMode": "ExactCount", "count": chance.choice([1, 1, 1, 2, 2, 3])}
    if chance.random() < 0.15:
        expression = chance.choice([f'{COLOR} == "blue"', f'has({COLOR}) && {COLOR} == "blue"', "true"])
        asked["selectors"] = [{"cel": {"expression": expression}}]
    if chance.random() < 0.2:
        tolerated = {"operator": "Exists"} if chance.random() < 0.3 else {"key": "k", "operator": "Equal", "value": "v"}
        asked["tolerations"] = [tolerated]
    if chance.random() < 0.25:
        amounts = {"memory": chance.choice(AMOUNTS) if chance.random() < 0.97 else "100u"}
        if chance.random() < 0.3:
            amounts = (amounts if chance.random() < 0.5 else {}) | {"large": chance.choice(LARGE_AMOUNTS)}
        asked["capacity"] = {"requests": {"cores": "1"} if chance.random() < 0.05 else amounts}
    return asked


def _held(chance: Random, slices: list[Json]) -> Any:
    """Yield what other claims have of the devices: all of one, or shares."""
    for each in slices:
        spec = each["spec"]
        for device in spec.get("devices", ()):
            place = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
            if "allowMultipleAllocations" not in device or chance.random() < 0.03:
                if chance.random() < 0.12:
                    yield {"request": "r", **place}
            elif "capacity" in device and chance.random() < 0.3:
                amounts = {"memory": ["1", "2", "1500m", "0.25"], "large": ["1Gi", "500M", "1"]}
                taken = {name: chance.choice(amounts[name]) for name in device["capacity"]}
                yield {
                    "request": "r",
                    **place,
                    "shareID": str(UUID(int=chance.getrandbits(32))),
                    "consumedCapacity": taken,
                }


def _respell(chance: Random, slices: list[Json], claims: list[Json], held: list[Json]) -> None:
    """Give some names the driver's domain, or both spellings, and devices versions that differ in build metadata.

    Nobody checks that a driver, a claim and an earlier allocation spell a capacity alike.
    """
    for driver, device in ((s["spec"]["driver"], each) for s in slices for each in s["spec"].get("devices", ())):
        _respell_names(chance, device.get("capacity", {}), domains=(driver,))
        if chance.random() < 0.6:
            firmware = {"version": chance.choice(VERSIONS)}
            device["attributes"][chance.choice(["a.example/firmware", "firmware"])] = firmware
    for share in held:
        _respell_names(chance, share.get("consumedCapacity", {}), domains=(share["driver"],))
    for devices in (each["spec"]["devices"] for each in claims):
        asked = [each for r in devices["requests"] for each in r.get("firstAvailable", [r.get("exactly")])]
        for capacity in (each["capacity"] for each in asked if "capacity" in each):
            _respell_names(chance, capacity["requests"], domains=DRIVERS)
        for constraint in devices["constraints"]:
            if chance.random() < 0.5:
                kind = next(key for key in constraint if key != "requests")
                constraint[kind] = "a.example/firmware"


def _respell_names(chance: Random, named: Json, *, domains: Sequence[str]) -> None:
    for name in list(named):
        if chance.random() < 0.4:
            value = named[name] if chance.random() < 0.15 else named.pop(name)
            named[f"{chance.choice(domains)}/{name}"] = value
