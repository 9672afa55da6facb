"""Open everything a question needs, once: strategy, index, encoder, model. The command line and the interface share it.

Cheap checks come first (`plan`), so that a misspelt name is told before a gigabyte is loaded. A front end that goes on
with other settings hands its session in, and only what the change concerns is loaded anew (`session`).
"""
