"""``kubectl dra verify``: one pod gets a device, and the device is freed; with a report that can be shared."""
