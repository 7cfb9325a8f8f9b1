"""Texts about problems: causes, remedies, impairments, singular forms."""
