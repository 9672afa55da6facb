"""Make rows for probers from questions, train on them, and measure what was held out."""
