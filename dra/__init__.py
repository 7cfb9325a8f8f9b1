"""dra-reserve: Kubernetes devices, CPUs and GPUs reserved for workloads instead of single pods."""
