"""The ClusterColocationProfile API as pydantic models: the fields of Koordinator 1.6, under Koordinator's names.

Koordinator's own definition may be installed instead, with fields of other versions. So unknown fields are kept: what
has no translation is reported in the status, and never dropped without a word.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StrictInt, StrictStr, ValidationError, WithJsonSchema

from dra.api.object_fields import Condition, FreeFormObject, Labels, LenientModel, ObjectMetadata
from dra.api.parameters.opaque import validation_message
from dra.api.selector_operators import SelectorOperator
from dra.model.meta import content_fault

GROUP: Final = "config.koordinator.sh"
VERSION: Final = "v1alpha1"
KIND: Final = "ClusterColocationProfile"
PLURAL: Final = "clustercolocationprofiles"

Int32 = Annotated[StrictInt, WithJsonSchema({"type": "integer", "format": "int32"})]


class MalformedProfileError(ValueError):
    """An object is no valid ClusterColocationProfile; the text contains the paths of the wrong fields."""


class Requirement(LenientModel):
    """One requirement of a label selector."""

    key: StrictStr
    """The key of the label."""

    operator: SelectorOperator
    """The relation of the label to the values: In, NotIn, Exists or DoesNotExist."""

    values: tuple[StrictStr, ...] = ()
    """The values, for In and NotIn."""


class LabelSelector(LenientModel):
    """A selection by labels; an empty one selects everything."""

    match_labels: Labels = {}
    """Labels that must be there with these values."""

    match_expressions: tuple[Requirement, ...] = ()
    """Further requirements, all of which must be met."""

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """All requirements, those of ``matchLabels`` first."""
        equal = (
            Requirement(key=key, operator=SelectorOperator.IN, values=(value,))
            for key, value in sorted(self.match_labels.items())
        )
        return (*equal, *self.match_expressions)


class ProfileQosClass(StrEnum):
    """Koordinator's QoS classes that a profile can give."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


class ProfileSpec(LenientModel):
    """The fields that a profile sets in new pods, and the selection of these pods."""

    model_config = ConfigDict(extra="allow")

    namespace_selector: LabelSelector = LabelSelector()
    """The namespaces whose pods the profile applies to. If empty, all namespaces."""

    selector: LabelSelector = LabelSelector()
    """The pods that the profile applies to, by their labels before any profile. If empty, all pods."""

    probability: Annotated[StrictInt | StrictStr | None, WithJsonSchema({"x-kubernetes-int-or-string": True})] = None
    """Share of the pods: 100 or "100%" are all, which is the default, 0 or "0%" none; others are not supported."""

    qos_class: ProfileQosClass | None = None
    """QoS class, for the label koordinator.sh/qosClass."""

    priority_class_name: StrictStr = ""
    """PriorityClass. Requests of pods with priority class koord-batch become batch-cpu and batch-memory."""

    koordinator_priority: Int32 | None = None
    """Priority within the priority class, for the label koordinator.sh/priority."""

    labels: Labels = {}
    """Labels to set."""

    annotations: Labels = {}
    """Annotations to set."""

    label_keys_mapping: Labels = {}
    """Labels to copy: the key of the label that is read, and the key that its value is set to as well."""

    annotation_keys_mapping: Labels = {}
    """Annotations to copy: the key that is read, and the key that its value is set to as well."""

    scheduler_name: StrictStr = ""
    """Scheduler of the pods."""

    patch: FreeFormObject = {}
    """Further metadata.labels, metadata.annotations and spec.terminationGracePeriodSeconds; no other fields."""


class ProfileStatus(LenientModel):
    """The state of a profile."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=8)] = ()
    """Ready: whether new pods get what the profile says. Conflict: other profiles say otherwise for the same pods."""


class ClusterColocationProfile(LenientModel):
    """A profile that makes new pods batch pods, or gives them another class, labels or scheduler."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: ProfileSpec = ProfileSpec()
    status: ProfileStatus = ProfileStatus()


def parse_profile(content: Mapping[str, Any]) -> ClusterColocationProfile:
    """Return a profile; raise MalformedProfileError."""
    if fault := content_fault(content):
        raise MalformedProfileError(fault)
    try:
        return ClusterColocationProfile.model_validate(content)
    except ValidationError as error:
        raise MalformedProfileError(validation_message(error, ClusterColocationProfile, root="")) from error
