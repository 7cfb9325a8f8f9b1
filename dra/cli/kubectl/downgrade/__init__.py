"""``kubectl dra downgrade`` converts a cluster back to what stock Kubernetes does by itself, claim by claim."""
