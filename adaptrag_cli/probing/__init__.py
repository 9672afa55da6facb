"""Probers: small networks that read from a model's states whether it answers right (Probing-RAG, UAR)."""
