"""Batch resources: what of a node batch pods may have, since high-priority pods do not use it."""
