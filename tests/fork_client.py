"""Program that has `fork_server.py` run another one, with its own folder, environment and streams.

`python tests/fork_client.py FD ARGUMENTS` asks the server at the other end of the socket FD, and exits with its answer.
"""

import json
import os
import socket
import sys

request = {"arguments": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - quicker
with socket.socket(fileno=int(sys.argv[1])) as server:
    server.settimeout(120)
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    code = int(server.recv(100))
sys.exit(code)
