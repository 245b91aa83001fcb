"""`make bench`: figures of this machine, each in one run with what it is compared to. Nothing here is asserted."""
