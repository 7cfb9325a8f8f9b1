"""The node lifecycle controller: handles pods whose node is silent, tainted or deleted."""
