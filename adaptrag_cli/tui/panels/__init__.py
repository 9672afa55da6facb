"""What is on the main screen: each panel shows one side of a run."""
