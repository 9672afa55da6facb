"""AdaptRAG CLI: ask your own documents, and see why they were (or were not) looked up."""

__version__ = "0.1.0"
