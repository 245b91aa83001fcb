"""What a router says to workers and asks of them."""
