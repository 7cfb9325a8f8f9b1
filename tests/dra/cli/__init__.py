"""Tests of dra.cli."""
