"""The cluster side: watches claims and their pods, and brings each claim to what the engine wants."""
