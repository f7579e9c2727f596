"""Archives: one reader for each format; `unpack` chooses the reader by the content."""
