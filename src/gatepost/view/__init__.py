"""A message for somebody to look at, with nothing left in it that acts: plain text, lists, and pictures drawn anew."""

from gatepost.view.message import view
from gatepost.view.picture import picture
from gatepost.view.values import NotShown, Picture, View

__all__ = ["NotShown", "Picture", "View", "picture", "view"]
