"""``dra-reserve local`` runs a control plane on this machine, with its state in a folder."""
