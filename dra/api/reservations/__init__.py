"""The API of Reservations (scheduling.koordinator.sh/v1alpha1): capacity held for pods that need not exist yet."""
