"""Implements custom kinds: validates CustomResourceDefinitions and their objects."""
