"""Tests of dra.model."""
