"""Pods and nodes as kube-scheduler's filters see both."""
