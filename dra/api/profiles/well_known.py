"""The names by which profiles, pods and admission policies refer to one another."""

from typing import Final

ANNOTATION_SKIP_RESOURCES: Final = "config.koordinator.sh/skip-update-resources"
"""Annotation of a profile, and of the pods that it changes: requests for CPU and memory stay as they are."""

POLICY: Final = "profiles.reserve.dra"
"""The MutatingAdmissionPolicy that applies all profiles, and its binding."""
GUARD: Final = "batch-pods.reserve.dra"
"""The ValidatingAdmissionPolicy that refuses batch pods whose requests nobody counts, and its binding."""
LIMIT_RANGES: Final = "batch-pods-limit-ranges.reserve.dra"
"""The ValidatingAdmissionPolicy that warns of a LimitRange which gives CPU or memory to batch pods, and its binding."""
PARAMETERS: Final = "profiles"
"""The one ColocationProfileParameters that the policy reads."""

BATCH_CPU: Final = "kubernetes.io/batch-cpu"
"""Resource that counts milli-CPUs."""
BATCH_MEMORY: Final = "kubernetes.io/batch-memory"
"""Resource that counts bytes."""
TRANSLATED_RESOURCES: Final = (("cpu", BATCH_CPU), ("memory", BATCH_MEMORY))
"""Resources of Kubernetes, each with the one that takes its place in batch pods."""
