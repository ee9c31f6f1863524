#!/bin/sh
# Run a part of the Procfile. It ends, with its children, when honcho ($UP) does or when its own first process does:
# workers that outlive a killed server would keep its port.
(tail --pid="$UP" -f /dev/null && kill 0) > /dev/null 2>&1 &
"$@"
kill 0
