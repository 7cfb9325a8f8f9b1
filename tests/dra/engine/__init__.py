"""The tests of dra.engine; ``simulation`` is the world that the state machine runs it in."""
