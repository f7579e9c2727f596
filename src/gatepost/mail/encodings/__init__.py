"""Encodings inside mail: transfer encodings, charsets, encoded words, and files carried inside text or TNEF."""
