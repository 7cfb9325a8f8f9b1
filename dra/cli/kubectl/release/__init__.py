"""The commands that end a reservation, or wait for its end."""
