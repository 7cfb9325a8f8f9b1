"""The decisions of kube-scheduler, as far as claims and node resources go: `simulate` and the local plane ask them."""
