"""Tests of dra.api."""
