"""Texts about problems: causes, remedies, impairments, plural forms."""
