"""The engine in a process of its own, which streams the trace: what a screen needs to stay alive and fast."""
