"""Deployments: one ReplicaSet for each template, replaced step by step."""
