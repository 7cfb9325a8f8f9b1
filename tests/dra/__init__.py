"""The tests of dra, one folder for each of its packages."""
