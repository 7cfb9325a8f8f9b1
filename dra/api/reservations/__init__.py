"""Reservation (scheduling.koordinator.sh/v1alpha1): capacity that is kept for pods which do not exist yet."""
