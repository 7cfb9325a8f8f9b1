"""Printed advice is code that other people run: worlds that ask for advice, and what a command may not do to them."""
