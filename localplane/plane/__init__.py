"""How the local plane is put together: server, components, faults, snapshots."""
