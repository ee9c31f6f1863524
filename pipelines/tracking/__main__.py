"""Create the SQLite store if there is none, before a server opens it: `python -m pipelines.tracking [PORT]`.

MLflow's server would create it too, but leaves it incomplete if it is killed meanwhile. With a port, exit with an error
if the port is taken.
"""

import socket
import sys

from pipelines.tracking.database import file_of
from pipelines.tracking.store import address_of_store, connect

try:
    if file_of(address_of_store()):
        connect(create=True)
except (ValueError, OSError) as error:
    sys.exit(str(error))
for port in map(int, sys.argv[1:]):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        sys.exit(f"port {port}: {error.strerror}; take another, such as make ui PORT={port + 1}")
