"""``kubectl dra reserve``, ``kubectl dra reservations``, and the reservation texts of ``kubectl dra explain``."""
