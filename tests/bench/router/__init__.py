"""The router beside vllm-router, in one run: the router that is measured alone on one core, stub workers and clients on
the other.

Stubs speak each router's own protocol to workers and cost as little as a Python process can, so that the router is what
is measured. Three kinds of requests are known by the name of their model: see `answers`.
"""
