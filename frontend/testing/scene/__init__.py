"""A make-believe fleet, in the contracts' own types, lively enough to look at."""
