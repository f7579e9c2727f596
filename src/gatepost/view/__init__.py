"""A message made safe to look at: plain text, lists, and pictures drawn anew, with nothing left in it that acts.

`values` is plain data that every service may import; `message` and `page` parse mail, so only workers load them.
"""
