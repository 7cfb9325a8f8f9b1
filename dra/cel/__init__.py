"""The Common Expression Language: the one place where the evaluator is touched."""
