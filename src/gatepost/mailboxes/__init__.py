"""Mail that was delivered, in the mailboxes of its recipients."""
