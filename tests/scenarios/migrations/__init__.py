"""Migrations on real Kubernetes: the descheduler beside the extender."""
