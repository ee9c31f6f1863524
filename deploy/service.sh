#!/bin/sh
# Write a systemd user unit that runs `make up` in this checkout with the given variables. Used by `make service`.
set -eu
# A unit file has one setting per line, so values must not start a new line or join two.
case "$PWD$*" in *[[:cntrl:]]*) echo "the folder or a variable contains a line break or another control character: remove it" >&2; exit 1 ;; esac
case $PWD in *\\ | *[[:space:]]) echo "$PWD: the folder of a unit cannot end in a space or a backslash: rename it" >&2; exit 1 ;; esac
folder="${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Quote each word for systemd, so that spaces do not split it, and % and $ stand for themselves.
words=$(for word in "$(command -v make)" up "$@"; do
    printf ' "%s"' "$(printf %s "$word" | sed 's/[\\"]/\\&/g; s/%/%%/g; s/\$/$$/g')"
done)
cat > "$scratch/rankgrad.service" <<END
[Unit]
Description=RankGrad in $(printf %s "$PWD" | sed 's/%/%%/g')
StartLimitIntervalSec=0

[Service]
WorkingDirectory=$(printf %s "$PWD" | sed 's/%/%%/g')
# Variables that you would export before \`make up\`, such as PREFECT_API_URL and credentials: lines NAME=value, readable only by you.
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
echo "    journalctl --user --unit rankgrad --follow    # show its output"
