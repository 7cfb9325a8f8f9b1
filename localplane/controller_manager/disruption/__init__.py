"""The disruption controller: counts how many pods each PodDisruptionBudget allows to evict."""
