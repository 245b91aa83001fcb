"""The control plane under a simulated fleet: `python -m tests.bench.control`."""
