"""Where a request goes: what is known of workers and prompts, and the choice among them."""
