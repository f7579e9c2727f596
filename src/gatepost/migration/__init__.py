"""What other filters are configured with, taken over as lists, rules and settings of Gatepost."""
