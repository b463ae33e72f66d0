"""``python -m tidelake`` is the command ``tidelake``."""

from __future__ import annotations

import sys

from tidelake.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
