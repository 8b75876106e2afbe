# SPDX-License-Identifier: Apache-2.0
"""What the checks over the source tree share: their one argument, and how they report."""

import sys
from pathlib import Path


def report(problems):
    """Prints each problem on stderr; the exit status says whether there was one."""
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def check_tree(check):
    """Runs `check` over the tree that the command line names, else over this one; returns the exit status."""
    return report(check(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()))
