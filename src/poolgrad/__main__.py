"""``python -m poolgrad`` is the command ``poolgrad``."""

import sys

from .cli import main

sys.exit(main())
