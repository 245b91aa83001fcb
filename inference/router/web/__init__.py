"""The HTTP side: routes, what each request passes first, what each answer has in common."""
