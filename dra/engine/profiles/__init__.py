"""ClusterColocationProfiles: which pods they apply to, what they make of a pod, and what becomes of each profile."""
