"""Pods and nodes as the filters of kube-scheduler see them."""
