"""The workload controllers of the plane: Jobs, ReplicaSets, Deployments, and what cleans up behind them.

Each is a client of the API server that could as well be the real one's; ResourceClaims are none of their business.
"""
