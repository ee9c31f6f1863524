#!/bin/sh
# Run the whole pipeline at the tiny scale at two commits, one after another, in this clone, which is changed:
#
#   .github/tiny_run.sh BASE HEAD REPORT.md
#
# Both publish to one store, so the gate judges what HEAD trained against the champions of BASE; what HEAD does not change
# comes from DVC's run cache. REPORT.md gets the metrics that differ, and the gate's table.
set -eu
base=$1 head=$2 report=$3
run() {
    git checkout --quiet --force "$1"
    make setup
    make scale SCALE=tiny
    make repro
}
run "$base"
git add --all
git -c user.name=CI -c user.email=ci@localhost commit --quiet --message "the tiny run of the base"
git tag --force tiny-base > /dev/null
run "$head"
. .venv/bin/activate
{
    echo "### The tiny run, before and after"
    dvc metrics diff --md tiny-base
    echo "Scores of tiny runs show that something changed, and not which is better."
    echo
    echo "### The gate: what this change trained against the champions before it"
    echo '```'
    COLUMNS=160 rankgrad promote || true
    echo '```'
} > "$report"
