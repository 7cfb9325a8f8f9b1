"""``kubectl dra``: asks about a cluster, and changes it; ``dra-reserve`` runs things."""
