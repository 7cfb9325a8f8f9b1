"""The node side: a kubelet DRA plugin on the same ledger (not built yet)."""
