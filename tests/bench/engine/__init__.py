"""`make bench-engine`: the engine and the hand-off beside their peers and the machine's limits, in one run.

Each section gives rows of the table. Whatever is compared is measured in turns, so that what else the machine does
falls on both.
"""
