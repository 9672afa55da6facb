"""Command line: parse, call, render; no logic."""
