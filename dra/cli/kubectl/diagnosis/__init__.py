"""The commands that only read, which put the facts of `dra.engine.diagnosis` into words."""
