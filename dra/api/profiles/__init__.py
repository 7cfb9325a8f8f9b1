"""The kind ClusterColocationProfile, Koordinator's access layer, and the parameters of the policy that applies it."""
