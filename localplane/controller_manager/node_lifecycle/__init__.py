"""What becomes of pods whose node is silent, tainted or gone."""
