import os
import sys

from inference.worker.main import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # a thread that still loads weights or hangs in a device must not keep the process alive
