"""Releases that are printed where no controller runs, in virtual time: they take minutes."""
