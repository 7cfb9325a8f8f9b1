"""Koordinator's descheduler as the model: the same manifests, played against either descheduler and compared."""
