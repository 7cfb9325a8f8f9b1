"""The driver ``cpu.reserve.dra``: gives containers exclusive CPUs, and keeps all other containers off these CPUs."""
