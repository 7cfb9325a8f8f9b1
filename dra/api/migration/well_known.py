"""The labels and annotations that concern migrations. The keys are Koordinator's and the community descheduler's."""

from typing import Final

_GROUP: Final = "scheduling.koordinator.sh"

# On PodMigrationJobs.
ANNOTATION_PASSED_ARBITRATION: Final = "descheduler.koordinator.sh/passed-arbitration"
"""Annotation, written by the descheduler: ``true`` once the job may begin."""
ANNOTATION_WORKLOAD: Final = "reserve.dra/migrated-workload"
"""Annotation of dra-reserve, written with the one before: uid of the pod's controller. The limit on the rate of a
workload's evictions counts by this annotation and the pod's namespace once the pod is gone."""
ANNOTATION_JOB_CREATED_BY: Final = "koordinator.sh/job-created-by"
"""Annotation: the descheduler that created the job; absent on a job that a person created."""
ANNOTATION_EVICT_REASON: Final = "koordinator.sh/evict-reason"
"""Annotation: the reason of the eviction, for Events."""
ANNOTATION_EVICT_TRIGGER: Final = "koordinator.sh/evict-trigger"
"""Annotation: the plugin that wants the pod to move."""
ANNOTATION_PROFILE: Final = "reserve.dra/profile"
"""Annotation of dra-reserve: the profile of the plugin."""
ANNOTATION_ROUND: Final = "reserve.dra/descheduling-round"
"""Annotation of dra-reserve: when the round began that made the job, as RFC 3339."""
ANNOTATION_APPROVAL: Final = "reserve.dra/approval"
"""Annotation of dra-reserve: `APPROVAL_REQUIRED` on a job that was made paused and waits for a person."""
APPROVAL_REQUIRED: Final = "Required"

# On PodMigrationJobs and pods.
LABEL_EVICT_POLICY: Final = "koordinator.sh/evict-policy"
"""Label: the policy of the eviction, instead of the configured one; a job's label takes precedence over a pod's."""

# On pods.
EVICTION_COST: Final = f"{_GROUP}/eviction-cost"
"""Annotation or label: pods with a lower cost are evicted first; 2147483647 forbids the eviction. The annotation takes
precedence."""
ANNOTATION_POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
"""Annotation: pods with a lower cost are deleted first when a ReplicaSet is scaled down."""
ANNOTATION_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
"""Annotation: the pod may be evicted although a rule about evictable pods forbids the eviction."""
ANNOTATION_PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""Annotation: the pod is evicted after others, or never, as DefaultEvictor is configured (``noEvictionPolicy``)."""
ANNOTATION_SOFT_EVICTION: Final = f"{_GROUP}/soft-eviction"
"""Annotation, written instead of an eviction: asks the pod's owner to end the pod."""

# Of OpenKruise, on pods and on PodUnavailableBudgets.
ANNOTATION_RELATED_BUDGET: Final = "kruise.io/related-pub"
"""Annotation, written by OpenKruise: name of the PodUnavailableBudget of a pod."""
ANNOTATION_NOT_PROTECTED: Final = "pub.kruise.io/no-protect"
"""Annotation: ``true`` on a pod that no PodUnavailableBudget protects."""
ANNOTATION_PROTECTED_OPERATIONS: Final = "kruise.io/pub-protect-operations"
"""Annotation of a PodUnavailableBudget: the operations that the budget forbids, such as ``EVICT,DELETE``."""

# On Reservations that a job created.
LABEL_CREATED_BY: Final = "app.kubernetes.io/created-by"
"""Label: the component that created the Reservation."""
CREATED_BY: Final = "dra-reserve-descheduler"
"""Value of this label, and of `ANNOTATION_JOB_CREATED_BY`."""

MAX_EVICTION_COST: Final = 2**31 - 1
"""The cost of a pod that must not be evicted."""
