"""``python -m agewise`` is the command ``agewise``."""

import sys

from agewise.command import main

sys.exit(main())
