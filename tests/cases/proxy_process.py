"""The proxy as a process: `proxy_process.py CONFIG`; writes the port that it listens on as its first line."""

import sys
from pathlib import Path

from proxy.server.assembly import serve
from proxy.settings.load import load

if __name__ == "__main__":
    settings = load(Path(sys.argv[1]), environ={})
    sys.exit(serve(settings, announce=lambda _host, port: print(port, flush=True)))
