"""``kubectl dra deschedule``, and what other commands say about rounds of descheduling."""
