"""Usage of the emulated nodes; their agents report it and hold batch pods back."""
