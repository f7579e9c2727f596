"""What guard and abby share: scan request and result, spool, upload format, and orders on held mail."""
