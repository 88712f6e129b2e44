"""`python -m musaagent`."""

import sys

from musaagent.cli import main

if __name__ == "__main__":
    sys.exit(main())
