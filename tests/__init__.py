"""The tests; packages, so that the scenarios and the harness below them can import each other by name."""
