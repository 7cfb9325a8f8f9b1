"""The structure of all kinds: what a field is called, what may stand there, how its lists and maps are merged."""
