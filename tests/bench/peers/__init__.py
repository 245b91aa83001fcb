"""Engines under one protocol, each a process of its own, so that they can be measured turn by turn in one run.

A peer is started as `python -m tests.bench.peers.<name> MODEL OPTIONS` by the Python of its environment, OPTIONS being
JSON. When it has loaded the model it says {"seconds": 0.0}, and then answers lines of JSON with {"seconds": x} or
{"error": why}:

    {"do": "prompt", "tokens": n, "seed": s}                            a prompt of n tokens to its first token, alone
    {"do": "step", "answers": b, "context": n, "steps": k, "seed": s}   a step of b answers after prompts of n tokens

While it waits it uses no processor.
"""
