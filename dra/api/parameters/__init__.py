"""Opaque parameters of our drivers' devices, as people write them into DeviceClasses and ResourceClaims."""
