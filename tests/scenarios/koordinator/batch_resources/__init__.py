"""koord-manager as the model: the batch resources of the same nodes, computed by either and compared."""
