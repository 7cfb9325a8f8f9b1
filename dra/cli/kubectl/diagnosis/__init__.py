"""The commands that only read: facts of `dra.engine.diagnosis`, put into words."""
