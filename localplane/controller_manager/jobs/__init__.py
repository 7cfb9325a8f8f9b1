"""The Job controller: what upstream's does, decided in one place and done by a small shell."""
