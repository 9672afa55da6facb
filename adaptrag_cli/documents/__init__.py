"""Files to documents, documents to chunks."""
