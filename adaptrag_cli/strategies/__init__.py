"""Retrieval strategies: one method (or close family) per file."""
