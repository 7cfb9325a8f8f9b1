"""Our metrics as a real Prometheus sees them."""
