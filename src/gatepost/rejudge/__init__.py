"""The policies in force, and what would change if lists or policies were others."""
