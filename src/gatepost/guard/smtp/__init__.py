"""Mail that comes over SMTP: taken in strictly, analysed, and passed on within the sender's own transaction."""
