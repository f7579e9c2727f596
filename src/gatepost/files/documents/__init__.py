"""Documents: one reader for each format; `dispatch` chooses the reader by the content."""
