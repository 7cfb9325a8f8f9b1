"""The Deployment controller: one ReplicaSet for each pod template, with rolling or recreating updates."""
