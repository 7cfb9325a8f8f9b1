"""``kubectl dra`` inspects and changes a cluster; ``dra-reserve`` runs the components."""
