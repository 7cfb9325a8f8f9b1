"""``kubectl dra simulate``: what a scheduler would do with manifests that nobody has applied yet."""
