"""``kubectl dra reserve``, ``kubectl dra reservations``, and what ``why`` says of reservations."""
