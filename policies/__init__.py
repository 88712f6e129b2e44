"""Who writes the next candidate, and how a budget is spent. Knows result types only."""
