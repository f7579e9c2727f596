"""A message for somebody to look at, with nothing left in it that acts: plain text, lists, and pictures drawn anew.

`values` is plain data that every service may import; `message` and `picture` parse mail, so only workers load them.
"""
