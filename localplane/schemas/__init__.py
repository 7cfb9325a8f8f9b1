"""Describes the structure of all kinds: names and types of fields, and how lists and maps are merged."""
