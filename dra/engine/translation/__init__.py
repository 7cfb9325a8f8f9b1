"""Translation of Koordinator's CPU and GPU requests into entries of ``spec.resourceClaims``."""
