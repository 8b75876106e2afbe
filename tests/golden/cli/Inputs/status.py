"""Runs a command and fails unless it exits with the status given: status.py STATUS COMMAND...; its stderr goes to stdout."""

import subprocess
import sys

done = subprocess.run(sys.argv[2:], stderr=subprocess.STDOUT)
if done.returncode != int(sys.argv[1]):
    sys.exit(f"exit status {done.returncode}, expected {sys.argv[1]}")
