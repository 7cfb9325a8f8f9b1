"""The kubelet plugin: serves the DRA drivers of one node and keeps prepared claims in the ledger of `dra.engine`."""
