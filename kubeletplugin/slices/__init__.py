"""ResourceSlices for a driver's pools: `desired_slices` and `slice_diff` plan the writes, `publisher` sends them."""
