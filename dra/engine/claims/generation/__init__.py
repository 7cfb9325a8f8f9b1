"""Rule 13: claims that are generated from templates, for pods and for PodGroups."""
