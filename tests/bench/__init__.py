"""`make bench-engine`, `make bench-control`: figures of this machine, each in one run with what it is compared to."""
