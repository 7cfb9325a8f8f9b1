"""The commands that only read: facts of `dra.engine.explain`, put into words."""
