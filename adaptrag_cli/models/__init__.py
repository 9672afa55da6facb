"""Language models, encoders, and their files."""
