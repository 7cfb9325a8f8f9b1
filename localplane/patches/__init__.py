"""Implements the patch types of the API; each makes a mutation of the old object for `Registry.update`."""
