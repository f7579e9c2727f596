"""abby, the API service: scanning, held mail, lists and status over HTTP, spread over the cores."""
