"""Garbage collection by owner references: background, foreground and orphan deletion."""
