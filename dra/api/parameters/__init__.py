"""Opaque parameters for devices of dra-reserve's drivers, as users write them in DeviceClasses and ResourceClaims."""
