"""``python -m plugins.audit FILE``: verify a log."""

from __future__ import annotations

import argparse
import sys

from plugins.audit.verify import HELP, configure, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m plugins.audit", description=HELP)
    configure(parser)
    sys.exit(run(parser.parse_args()))
