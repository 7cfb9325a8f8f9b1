"""Decisions, pure: functions of data, never of clocks, networks or chance (an import contract proves it)."""
