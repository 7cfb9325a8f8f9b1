"""Claims that are generated from templates, for pods and for PodGroups (rule Stock duties)."""
