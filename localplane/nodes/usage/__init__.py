"""What the emulated nodes use, and how their agents report usage and hold batch pods back."""
