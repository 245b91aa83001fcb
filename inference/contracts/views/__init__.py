"""What people are shown of the state, in the browser and on the command line: whole objects, one for each thing.

Times are ISO 8601 in UTC. `None` is "not known", never zero.
"""
