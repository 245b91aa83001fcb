"""`python -m inference.agent`."""

import sys

from inference.agent.main import main

if __name__ == "__main__":
    sys.exit(main())
