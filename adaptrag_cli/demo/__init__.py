"""The sample corpus of an invented organisation, and the questions of `adaptrag demo`."""
