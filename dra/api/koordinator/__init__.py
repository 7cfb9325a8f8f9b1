"""The labels, annotations and resources by which pods ask Koordinator for CPUs and GPUs."""
