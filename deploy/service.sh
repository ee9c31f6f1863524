#!/bin/sh
# Write a systemd user unit that runs `make up` in this checkout with the given variables. Used by `make service`.
set -eu
# A unit's file has a line for each setting: what would begin another one, or join two, is no part of it.
case "$PWD$*" in *[[:cntrl:]]*) echo "a line break or another control character in the folder or a variable" >&2; exit 1 ;; esac
case $PWD in *\\ | *[[:space:]]) echo "$PWD: a folder of a unit cannot end so: rename it" >&2; exit 1 ;; esac
folder="${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Each word as systemd reads it back: in quotes, where a space parts nothing, and % and $ stand for nothing else.
words=$(for word in "$(command -v make)" up "$@"; do
    printf ' "%s"' "$(printf %s "$word" | sed 's/[\\"]/\\&/g; s/%/%%/g; s/\$/$$/g')"
done)
cat > "$scratch/rankgrad.service" <<END
[Unit]
Description=RankGrad in $(printf %s "$PWD" | sed 's/%/%%/g')
StartLimitIntervalSec=0

[Service]
WorkingDirectory=$(printf %s "$PWD" | sed 's/%/%%/g')
# What the shell of \`make up\` would export, such as PREFECT_API_URL and credentials: lines NAME=value, readable by you alone.
EnvironmentFile=-%E/rankgrad.env
ExecStart=${words# }
Restart=always
RestartSec=10

[Install]
WantedBy=default.target
END
if command -v systemd-analyze > /dev/null; then
    XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-$scratch}" systemd-analyze --user --recursive-errors=no verify "$scratch/rankgrad.service"
else
    echo "no systemd-analyze here, so the unit was not verified" >&2
fi
mkdir -p "$folder"
mv "$scratch/rankgrad.service" "$folder/rankgrad.service"
echo "wrote $folder/rankgrad.service. Start it, now and after each reboot, whether or not you are logged in:"
echo "    systemctl --user daemon-reload && systemctl --user enable --now rankgrad && loginctl enable-linger"
echo "    journalctl --user --unit rankgrad --follow    # what it prints"
