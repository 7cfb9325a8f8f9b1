"""The Job controller: upstream's rules, decided by pure functions and carried out by a small shell."""
