"""A message made safe to look at: plain text, lists, and pictures drawn anew, with nothing left in it that acts.

`message.build_view` and `picture.draw_picture` build the values, in a worker; `values` holds them and loads no reader.
"""
