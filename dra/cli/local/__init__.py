"""``dra-reserve local``: a control plane on this machine, its state in a folder."""
