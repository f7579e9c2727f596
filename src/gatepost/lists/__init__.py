"""Lists: kinds of entries, their normal forms, and the lists that every scope has."""
