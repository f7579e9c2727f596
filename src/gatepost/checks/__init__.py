"""What looks for tricks in a message: one trick, or one table of the same trick, per module; `registry` lists them all.

A check is a pure function from a `Reading` to findings. Checks are grouped by what they look at: `sender`, `headers`,
`links`, `text` and `files`. Lists and phrasebooks stand in `data`.
"""
