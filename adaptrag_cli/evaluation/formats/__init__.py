"""Readers of question files, one data set (or close family) per module."""
