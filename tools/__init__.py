"""What the checkout needs and the installed program does not: generators of documentation pages."""
