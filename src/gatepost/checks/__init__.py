"""What looks for tricks in a message: one function per trick, one module per subject; `registry` lists them all.

A check is a pure function from a `Reading` to findings. Checks are grouped by what they look at: `sender`, `headers`,
`links`, `text` and `files`, and inside of these by subject. Lists and phrasebooks stand in `data`.
"""
