"""The sealed worker processes that analyse mail, and guard's side of them."""
