"""``kubectl dra apply``: manifests as KEP-5194 writes them, on servers with and without its fields."""
