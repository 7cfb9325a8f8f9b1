"""The cluster controller: watches claims and their pods, and reconciles each claim with the engine's plan."""
