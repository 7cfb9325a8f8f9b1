"""Rule 13: claims that are made from templates, for pods and for PodGroups."""
