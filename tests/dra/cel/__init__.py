"""Tests of dra.cel."""
