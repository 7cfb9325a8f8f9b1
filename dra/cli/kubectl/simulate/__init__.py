"""``kubectl dra simulate`` shows what a scheduler would do with manifests before they are applied."""
