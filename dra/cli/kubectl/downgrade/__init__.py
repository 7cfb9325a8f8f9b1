"""``kubectl dra downgrade``: back to what stock Kubernetes does by itself, claim by claim."""
