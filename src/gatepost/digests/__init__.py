"""Digests: what is held for a recipient, mailed once a day, with signed links to a page on which the recipient acts."""
