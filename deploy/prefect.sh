#!/bin/sh
# Deploy this checkout to the Prefect server at PREFECT_API_URL: work pools, the deployments in prefect.yaml with their
# schedules, the automations in heartbeats.yaml and starts.yaml, and alerts if RANKGRAD_ALERTS_URL is a webhook. Running it
# again updates them. Used by `make deploy`. The flows' pool is RANKGRAD_POOL, or the pool that a worker polls. The nightly
# retraining pushes to the git remote RANKGRAD_PUSH, if set.
set -eu
: "${PREFECT_API_URL:?set it to the address of a Prefect server; make deploy takes that of make up}"
export RANKGRAD_NIGHTLY="${RANKGRAD_NIGHTLY:-0 3 * * *}" RANKGRAD_PUSH="${RANKGRAD_PUSH:-}"
unset RANKGRAD_PROJECT # it would be filled in here, and each worker has its own

ports=${RANKGRAD_PORTS:+ $RANKGRAD_PORTS} # that make was given
prefect server status || {
    echo "waiting for it, 3 minutes at most" # `make up` needs some seconds
    prefect server status --wait --timeout 180 || { echo "start one with: make up$ports" >&2; exit 1; }
}
RANKGRAD_POOL=${RANKGRAD_POOL:-$(python deploy/prepare.py pool)}
export RANKGRAD_POOL
# Prefect's own output is kept back: it says how to start a worker that would know no checkout.
there() { prefect work-pool inspect "$1" > /dev/null 2>&1; }
case $RANKGRAD_POOL in
    # The last look: a worker that has just started creates its pool too.
    cpu | gpu) there "$RANKGRAD_POOL" || made=$(prefect work-pool create "$RANKGRAD_POOL" --type process) ||
        there "$RANKGRAD_POOL" || { echo "$made" >&2; exit 1; } ;;
    kubernetes) prefect work-pool create kubernetes --type kubernetes --overwrite \
        --base-job-template deploy/kubernetes/job-template.json ;;
    *) there "$RANKGRAD_POOL" || { echo "no work pool is called $RANKGRAD_POOL, expected cpu, gpu or kubernetes" >&2; exit 1; } ;;
esac
made=$(prefect --no-prompt deploy --all 2>&1) || { echo "$made" >&2; exit 1; }
echo "deployed to the work pool $RANKGRAD_POOL: $(sed -n 's/^  - name: //p' prefect.yaml | paste -s -d ' ')"
for file in heartbeats starts; do
    name=$(sed -n 's/^name: "\(.*\)"$/\1/p' deploy/$file.yaml)
    prefect automation delete "$name" > /dev/null 2>&1 || true
    prefect automation create --from-file deploy/$file.yaml
done
status=$(prefect work-pool inspect "$RANKGRAD_POOL" --output json | python -c 'import json, sys; print(json.load(sys.stdin)["status"])')
case $status:$RANKGRAD_POOL in
    READY:*) ;;
    PAUSED:*) echo "the work pool $RANKGRAD_POOL is paused, so runs wait: prefect work-pool resume $RANKGRAD_POOL" ;;
    *:cpu | *:gpu) echo "no worker polls the work pool $RANKGRAD_POOL yet, so runs wait: make up PARTS=worker POOL=$RANKGRAD_POOL$ports" ;;
    *) echo "no worker polls the work pool $RANKGRAD_POOL yet, so runs wait: docs/fleet.md, Kubernetes" ;;
esac
changed=$(git diff HEAD --name-only | paste -s -d ' ')
[ -z "$changed" ] || echo "not committed, and a retraining takes what is committed alone: $changed"
case ${RANKGRAD_IN_IMAGE:-}:$RANKGRAD_POOL:$RANKGRAD_PUSH in
    1:*: | *:kubernetes:) echo "no PUSH, so the nightly retraining is refused: its branch would go with its container: docs/fleet.md" ;;
esac
[ -z "${RANKGRAD_ALERTS_URL:-}" ] || python deploy/prepare.py alerts
