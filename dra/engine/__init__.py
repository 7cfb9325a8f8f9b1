"""Decisions as pure functions of data, without clocks, networks or randomness; an import contract enforces this."""
