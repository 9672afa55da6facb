"""The terminal interface: explore a retrieval decision, live or from a trace."""
