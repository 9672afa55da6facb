"""Where chunks live."""
