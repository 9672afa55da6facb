"""Learning when to look up: search for trajectories, losses, training of an adapter, and its export (DeepRAG)."""
