"""HTML as a person sees it: visible and hidden text, links, and active content."""
