"""Make the SQLite store if there is none, before a server opens it.

`python -m pipelines.tracking`. MLflow's server makes one too, but leaves it half made if it is killed meanwhile.
"""

import sys

from pipelines.tracking.database import file_of
from pipelines.tracking.store import address_of_store, connect

try:
    if file_of(address_of_store()):
        connect(create=True)
except (ValueError, OSError) as error:
    sys.exit(str(error))
