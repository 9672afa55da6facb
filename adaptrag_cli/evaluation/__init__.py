"""Ask question sets with several strategies, and measure what comes out."""
