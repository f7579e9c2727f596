"""Documents: one reader for each format; `registry` chooses by content."""
