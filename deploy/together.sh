#!/bin/sh
# Run one process of the Procfile. End it and its children when honcho ($UP) or its own first process ends, because
# workers that outlive a killed server would keep its port.
(tail --pid="$UP" -f /dev/null && kill 0) > /dev/null 2>&1 &
"$@"
kill 0
