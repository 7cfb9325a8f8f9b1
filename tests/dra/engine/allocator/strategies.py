"""Small worlds of devices and claims, by hand and by Hypothesis."""

from hypothesis import strategies as st

from dra.engine.allocator import ResourceSliceTracker, claim_to_allocate
from dra.engine.devices.allocator_releases import RELEASE_1_37
from dra.engine.devices.ledger import DeviceID, Holder, Ledger
from dra.model.claims import ResourceClaim, ResourceClaimSpec
from dra.model.device_classes import CELSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dra.model.meta import ObjectMeta
from dra.model.slices import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dra.model.taints import DeviceTaint

DRIVER = "gpu.example.com"
NODE = "n1"
CLASSES = {
    "any": DeviceClass(metadata=ObjectMeta(name="any")),
    "red": DeviceClass(
        metadata=ObjectMeta(name="red"),
        spec=DeviceClassSpec(
            selectors=[
                DeviceSelector(
                    cel=CELSelector(
                        expression=f'has(device.attributes["{DRIVER}"].color) && '
                        f'device.attributes["{DRIVER}"].color == "red"'
                    )
                )
            ],
            config=[{"opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}],
        ),
    ),
}


def device(name, **attributes):
    return Device(name=name, attributes={key: _typed(value) for key, value in attributes.items()})


def _typed(value):
    kind = {bool: "bool", int: "int", str: "string"}[type(value)]
    return {kind: value}


def slice_of(*devices, name="s", pool="p", generation=1, count=1, driver=DRIVER, **place):
    spec = ResourceSliceSpec(
        driver=driver,
        pool=ResourcePool(name=pool, generation=generation, resource_slice_count=count),
        devices=list(devices),
        **(place or {"node_name": NODE}),
    )
    return ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def inventory(*slices, release=RELEASE_1_37):
    found = ResourceSliceTracker(release)
    for each in slices:
        found.observe(each)
    return found


def exactly(name="r", *, cls="any", count=1, **fields):
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": cls, **mode, **fields}}


def first_of(name, *subs):
    return {"name": name, "firstAvailable": [{"name": sub["name"], **sub["exactly"]} for sub in subs]}


def claim(*requests, constraints=(), config=(), name="c"):
    devices = {"requests": list(requests), "constraints": list(constraints), "config": list(config)}
    return ResourceClaim(
        metadata=ObjectMeta(namespace="ml", name=name, uid=f"uid-{name}"), spec=ResourceClaimSpec(devices=devices)
    )


def wanted(*requests, **how):
    return claim_to_allocate(claim(*requests, **how), CLASSES)


def item(name, pool="p"):
    return DeviceID(driver=DRIVER, pool=pool, device=name)


def ledger(*held):
    found = Ledger()
    for number, each in enumerate(held):
        found.hold(Holder(kind="claim", key=("ml", f"h{number}"), uid=f"h{number}"), [each])
    return found


COLORS = st.sampled_from(["red", "blue"])
TAINTS = st.sampled_from([None, None, None, DeviceTaint(key="broken", effect="NoSchedule")])


@st.composite
def devices(draw, name, *, counters):
    attributes = {}
    if draw(st.booleans()):
        attributes["color"] = draw(COLORS)
    if draw(st.integers(0, 3)):
        attributes["numa"] = draw(st.integers(0, 1))
    taint = draw(TAINTS)
    consumes = None
    if counters and draw(st.booleans()):
        amount = str(draw(st.integers(1, 2)))
        consumes = [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]
    found = device(name, **attributes)
    has = draw(st.booleans())
    return Device(
        name=name,
        capacity={"memory": {"value": "3"}} if has else None,
        allow_multiple_allocations=has and draw(st.booleans()),
        attributes=found.attributes,
        taints=[taint] if taint else None,
        consumes_counters=consumes,
    )


@st.composite
def slices(draw):
    """Return one or two pools on the node, now and then with shared counters, or incomplete."""
    made = []
    for pool in ("p", "q")[: draw(st.integers(1, 2))]:
        counters = draw(st.booleans())
        number = draw(st.integers(0, 4))
        each = slice_of(
            *[draw(devices(f"d{i}", counters=counters)) for i in range(number)],
            name=f"s-{pool}",
            pool=pool,
            count=draw(st.sampled_from([1, 1, 1, 1, 2])),
            node_name=NODE,
            **({"shared_counters": [{"name": "set", "counters": {"memory": {"value": "3"}}}]} if counters else {}),
        )
        made.append(each)
    return made


REQUESTS = ("a", "b")


@st.composite
def asks(draw, name, *, admin=True):
    tolerations = [{"key": "broken", "operator": "Exists"}] if draw(st.integers(0, 3)) == 0 else []
    return exactly(
        name,
        cls=draw(st.sampled_from(["any", "any", "red"])),
        count=draw(st.sampled_from([1, 1, 1, 2, 2, 3, None])),
        **({"tolerations": tolerations} if tolerations else {}),
        **({"capacity": {"requests": {"memory": str(draw(st.integers(1, 2)))}}} if draw(st.booleans()) else {}),
        **({"adminAccess": True} if admin and draw(st.integers(0, 4)) == 0 else {}),
    )


@st.composite
def requests(draw, name):
    if draw(st.integers(0, 3)):
        return draw(asks(name))
    return first_of(name, *(draw(asks(f"s{i}", admin=False)) for i in range(2)))


@st.composite
def constraints(draw):
    kind = draw(st.sampled_from(["matchAttribute", "matchAttribute", "distinctAttribute"]))
    about = draw(st.sampled_from([None, ["a"], ["a", "b"]]))
    attribute = draw(st.sampled_from(["numa", "color"]))
    return {kind: f"{DRIVER}/{attribute}", **({"requests": about} if about else {})}


@st.composite
def claims(draw):
    made = []
    for number in range(draw(st.integers(1, 2))):
        names = REQUESTS[: draw(st.integers(1, 2))]
        made.append(
            claim(
                *[draw(requests(name)) for name in names],
                constraints=draw(st.lists(constraints(), max_size=1)),
                name=f"c{number}",
            )
        )
    return made
