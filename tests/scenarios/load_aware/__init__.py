"""Load-aware scheduling on real Kubernetes."""
