"""Where a request goes: what is known of workers and prompts, and the choice among them.

Nothing in here acts. `pick_decode`, `decide_split`, `pick_prefill` and what they are made of are functions of their
arguments, chance included (a `random.Random` that is handed in). `Knowledge` and its parts (standings, places, prompts,
breakers) change, but only by what they are told, and time is told to them: no clock, no task, no socket, no randomness
of their own. So a simulator may use all of it as it is. Whoever acts on it is `travel/steering.py`.
"""
