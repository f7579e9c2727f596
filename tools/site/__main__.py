"""`python -m tools.site build/site`."""

import sys
from pathlib import Path

from tools.site import SiteError, build

if __name__ == "__main__":
    try:
        print(build(Path(sys.argv[1]).absolute()).strip())
    except SiteError as fault:
        sys.exit(str(fault))
