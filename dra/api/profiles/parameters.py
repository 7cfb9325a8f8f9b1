"""ColocationProfileParameters: all profiles as the admission policy reads them, resolved and in name order.

An API server evaluates policies in no defined order, and exempts them from admission, so an account that may write
policies cannot be limited. The policy is therefore a constant of the installation, and profiles are data: an account
that writes this kind can set what its schema admits, and no other field of a pod, nor any other object.
"""

from typing import Annotated, Final

from pydantic import Field, StrictStr

from dra.api.object_fields import LenientModel, ObjectMetadata
from dra.api.profiles.model import Int32, Requirement

GROUP: Final = "reserve.dra"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ColocationProfileParameters"
PLURAL: Final = "colocationprofileparameters"

MAX_PROFILES: Final = 64
"""Maximum number of profiles: each new pod is compared with all of them."""
MAX_REQUIREMENTS: Final = 16
MAX_VALUES: Final = 32
MAX_ENTRIES: Final = 32
"""Maximum number of labels, annotations or copied keys of a profile."""
MAX_KEY_LENGTH: Final = 317
MAX_VALUE_LENGTH: Final = 1024


class Entry(LenientModel):
    """A label or an annotation."""

    key: StrictStr
    """The key, none of Kubernetes' own."""

    value: StrictStr
    """The value; it may be empty."""


class Copy(LenientModel):
    """A label or an annotation whose value is copied to a second key, if the pod has the first."""

    source: StrictStr
    """The key that is read."""

    target: StrictStr
    """The key that is set, none of Kubernetes' own."""


class ResolvedProfile(LenientModel):
    """The fields that one profile sets, and the selection of its pods."""

    name: StrictStr
    """The name of the ClusterColocationProfile."""

    namespace_requirements: tuple[Requirement, ...] = ()
    """Requirements on the labels of the namespace, all of which must be met."""

    pod_requirements: tuple[Requirement, ...] = ()
    """Requirements on the labels of the pod, all of which must be met."""

    labels: tuple[Entry, ...] = ()
    """Labels to set, also those of the QoS class and of the priority within the class."""

    label_copies: tuple[Copy, ...] = ()
    """Labels to copy."""

    annotations: tuple[Entry, ...] = ()
    """Annotations to set."""

    annotation_copies: tuple[Copy, ...] = ()
    """Annotations to copy."""

    scheduler_name: StrictStr = ""
    """Scheduler of the pods."""

    priority_class_name: StrictStr = ""
    """PriorityClass of the pods, none of the system's."""

    priority: Int32 = 0
    """The value of the PriorityClass, which tells whether pods are batch pods; admission computes a pod's own."""

    termination_grace_period_seconds: Int32 | None = None
    """Seconds between the request to end and the end of a container."""


class ParametersSpec(LenientModel):
    """All profiles that the policy applies."""

    profiles: Annotated[tuple[ResolvedProfile, ...], Field(max_length=MAX_PROFILES)] = ()
    """The profiles in name order; where several set one field of a pod, the last one wins."""


class ColocationProfileParameters(LenientModel):
    """The parameters of the admission policy profiles.reserve.dra, which reads the object with the name profiles."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: ParametersSpec = ParametersSpec()
