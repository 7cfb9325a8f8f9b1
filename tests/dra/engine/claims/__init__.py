"""Tests of dra.engine.claims."""
