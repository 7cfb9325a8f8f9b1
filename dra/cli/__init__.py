"""The command lines, which compose all other packages; no other package imports this one."""
