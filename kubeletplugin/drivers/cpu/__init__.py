"""``cpu.reserve.dra``: CPUs of one's own, and everybody else kept off them."""
