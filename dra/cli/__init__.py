"""Command lines: they compose everything, and nothing imports them."""
