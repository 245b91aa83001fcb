"""What operators learn of a router: metrics and windows of what clients experienced."""
