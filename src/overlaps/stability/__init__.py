"""Where the flow stops, and whether it stays there."""
