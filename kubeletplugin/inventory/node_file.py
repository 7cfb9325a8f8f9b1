"""The YAML file that describes a simulated node (``examples/gpus``): its schema and validation.

```yaml
apiVersion: reserve.dra/v1alpha1
kind: NodeInventory
driverVersion: 570.86.15
cudaDriverVersion: "12.8"
products:
  h100: {productName: NVIDIA H100 80GB HBM3, memory: 81559Mi, architecture: Hopper, cudaComputeCapability: "9.0"}
gpus:
- {product: h100, count: 8, numaNodes: [0, 1], pcieRoots: ["pci0000:17", "pci0000:60"]}
unhealthy:
- {minor: 3, reason: xid, value: "79", message: fallen off the bus}
missing: [5]
usage:
- {minor: 0, utilizationPercent: 85, memory: 60Gi}
```

Minors are numbered through all groups. The values of a list (NUMA nodes, roots) are distributed in blocks: of 8 GPUs,
the first four are on node 0. MIG and NVLink are plain ``attributes`` here. Errors name the path of the field.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, ValidationError, model_validator

from dra.api.parameters.opaque import Parameters, validation_message
from dra.model.quantities import MalformedQuantityError, parse

RESERVED_ATTRIBUTE_NAMES: Final = frozenset(
    {
        "type",
        "uuid",
        "productName",
        "brand",
        "architecture",
        "index",
        "minor",
        "driverVersion",
        "cudaDriverVersion",
        "cudaComputeCapability",
    }
)
"""Names that a product's ``attributes`` must not contain, since other fields set them."""

_VALUE_BYTES: Final = 64
_MAX_GPUS: Final = 4096


def _parse_bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a quantity such as 80Gi")  # noqa: TRY004 - pydantic takes ValueError
    try:
        amount = parse(value)
    except MalformedQuantityError as error:
        raise ValueError(str(error)) from error
    if amount.denominator != 1 or amount <= 0 or amount >= Fraction(2) ** 63:
        raise ValueError(f"{value!r} is not a valid amount of memory")
    return int(amount)


def _check_length(value: str) -> str:
    if len(value.encode()) > _VALUE_BYTES:
        raise ValueError(f"must have at most {_VALUE_BYTES} bytes")
    return value


def _check_attribute_names(value: dict[str, Any]) -> dict[str, Any]:
    if own := RESERVED_ATTRIBUTE_NAMES & value.keys():
        raise ValueError(f"{', '.join(sorted(own))} must not be among them: use the fields of these names")
    return value


Bytes = Annotated[int, BeforeValidator(_parse_bytes)]
Text = Annotated[str, AfterValidator(_check_length)]
NodeOrMinor = Annotated[int, Field(ge=0, le=4095, strict=True)]
Version = Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,2}$")]
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
Attributes = Annotated[
    dict[Name, StrictBool | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | Text],
    AfterValidator(_check_attribute_names),
    Field(max_length=8),
]
PcieRoot = Annotated[str, Field(pattern=r"^pci[0-9a-f]{4}:[0-9a-f]{2}$")]
PciBusId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$")]
Reason = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]


class GpuProduct(Parameters):
    """A GPU model that groups refer to."""

    product_name: Text
    memory: Bytes
    brand: Text = "Nvidia"
    architecture: Text = ""
    cuda_compute_capability: Version | None = None
    attributes: Attributes = Field(default_factory=dict)


class GpuGroup(Parameters):
    """A group of GPUs of one product."""

    product: str
    count: Annotated[int, Field(ge=1, le=1024, strict=True)] = 1
    numa_nodes: tuple[NodeOrMinor, ...] = ()
    pcie_roots: tuple[PcieRoot, ...] = ()
    pci_bus_ids: tuple[PciBusId, ...] = Field(default=(), alias="pciBusIDs")
    """PCI addresses, one for each GPU, or empty."""

    uuids: tuple[Text, ...] = ()
    """Uuids of the GPUs, one for each, or empty."""

    attributes: Attributes = Field(default_factory=dict)
    """Attributes in addition to those of the product, which they override."""

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        for name, listed in (("uuids", self.uuids), ("pciBusIDs", self.pci_bus_ids)):
            if listed and len(listed) != self.count:
                raise ValueError(f"{name} has {len(listed)} entries, and count is {self.count}")
        return self


class UnhealthyGpu(Parameters):
    """A fault of one simulated GPU."""

    minor: NodeOrMinor
    reason: Reason = "unhealthy"
    value: LabelValue = ""
    message: str = ""


class GpuUsage(Parameters):
    """The load of one simulated GPU."""

    minor: NodeOrMinor
    utilization_percent: Annotated[int, Field(ge=0, le=100, strict=True)] = 0
    memory: Bytes = 0
    """Memory in use, at most that of the GPU."""


class NodeInventory(Parameters):
    """The GPUs of a simulated node."""

    api_version: Literal["reserve.dra/v1alpha1"]
    kind: Literal["NodeInventory"]
    driver_version: Version = "1.0.0"
    cuda_driver_version: Version | None = None
    products: dict[str, GpuProduct] = Field(default_factory=dict)
    gpus: tuple[GpuGroup, ...] = Field(default=(), max_length=256)
    unhealthy: tuple[UnhealthyGpu, ...] = ()
    missing: tuple[NodeOrMinor, ...] = ()
    usage: tuple[GpuUsage, ...] = ()
    """What the GPUs are doing; of others, nothing is told."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for index, group in enumerate(self.gpus):
            if group.product not in self.products:
                known = ", ".join(sorted(self.products)) or "none"
                raise ValueError(f"gpus[{index}].product: no product {group.product!r}; products has {known}")
        count = sum(group.count for group in self.gpus)
        if count > _MAX_GPUS:
            raise ValueError(f"gpus: {count} GPUs exceed the maximum of {_MAX_GPUS}")
        for name, minors in (
            ("unhealthy", [gpu.minor for gpu in self.unhealthy]),
            ("missing", self.missing),
            ("usage", [gpu.minor for gpu in self.usage]),
        ):
            for index, minor in enumerate(minors):
                if minor >= count:
                    raise ValueError(f"{name}[{index}]: no GPU has minor {minor}; there are {count} GPUs")
        for name, listed in (
            ("uuids", [uuid for group in self.gpus for uuid in group.uuids]),
            ("pciBusIDs", [address for group in self.gpus for address in group.pci_bus_ids]),
        ):
            if twice := sorted(identifier for identifier, times in Counter(listed).items() if times > 1):
                raise ValueError(f"{name}: {', '.join(twice)} must be unique")
        return self


def parse_node_inventory(text: str) -> NodeInventory:
    """Return the node that a YAML document describes; raises ValueError with the paths of invalid fields."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, Mapping):
        raise ValueError("must be a YAML object with apiVersion, kind, products and gpus")  # noqa: TRY004
    try:
        return NodeInventory.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ValueError(validation_message(error, NodeInventory, root="")) from error
