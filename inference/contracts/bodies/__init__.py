"""What REST reads: one struct for each body, by what it is about.

Unknown fields are refused, so that a misspelt one is not dropped; and what has its default is not sent, so that a
client can talk to a control plane that does not know the newest fields.
"""
