"""Rounds of descheduling on real Kubernetes and on the local plane: plugins and their migrations."""
