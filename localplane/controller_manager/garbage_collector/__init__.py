"""Garbage collection by owner references: background, foreground, orphan."""
