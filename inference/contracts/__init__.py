"""Messages and states shared by every process of Tandem.

Nothing here imports torch, a web framework or another package of this project, so any process may read any
message. Values are frozen `msgspec.Struct`s: strict when built, tolerant of unknown fields when read, so nodes and
control planes of neighbouring versions understand each other. Add a message rather than change one.
"""
