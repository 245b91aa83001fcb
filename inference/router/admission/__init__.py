"""Who may ask, how much, and in which order when there is not room for all."""
