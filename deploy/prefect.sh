#!/bin/sh
# Deploy this checkout to the Prefect server at PREFECT_API_URL: work pools, the deployments in prefect.yaml with their
# schedules, the automations in heartbeats.yaml and starts.yaml, and alerts if RANKGRAD_ALERTS_URL is a webhook. Running it
# again updates them. Used by `make deploy`. The flows' pool is RANKGRAD_POOL, or the pool that a worker polls. The nightly
# retraining pushes to the git remote RANKGRAD_PUSH, if set.
set -eu
: "${PREFECT_API_URL:?set it to the address of a Prefect server; make deploy uses the server of make up}"
export RANKGRAD_NIGHTLY="${RANKGRAD_NIGHTLY:-0 3 * * *}" RANKGRAD_PUSH="${RANKGRAD_PUSH:-}"
unset RANKGRAD_PROJECT # each worker has its own, so it must not be filled in here

ports=${RANKGRAD_PORTS:+ $RANKGRAD_PORTS} # the ports given to make, for commands to suggest
prefect server status || {
    echo "waiting up to 3 minutes for the Prefect server" # `make up` needs some seconds
    prefect server status --wait --timeout 180 || { echo "start one with: make up$ports" >&2; exit 1; }
}
RANKGRAD_POOL=${RANKGRAD_POOL:-$(python deploy/prepare.py pool)}
export RANKGRAD_POOL
# Hide Prefect's own output, which suggests a command for a worker without a checkout.
there() { prefect work-pool inspect "$1" > /dev/null 2>&1; }
case $RANKGRAD_POOL in
    # Look again after a failed creation: a worker that has just started may have created the pool.
    cpu | gpu) there "$RANKGRAD_POOL" || made=$(prefect work-pool create "$RANKGRAD_POOL" --type process) ||
        there "$RANKGRAD_POOL" || { echo "$made" >&2; exit 1; } ;;
    kubernetes) prefect work-pool create kubernetes --type kubernetes --overwrite \
        --base-job-template deploy/kubernetes/job-template.json ;;
    *) there "$RANKGRAD_POOL" || { echo "there is no work pool $RANKGRAD_POOL, expected cpu, gpu, or kubernetes" >&2; exit 1; } ;;
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
[ -z "$changed" ] || echo "retraining uses only what is committed; commit these files first: $changed"
case ${RANKGRAD_IN_IMAGE:-}:$RANKGRAD_POOL:$RANKGRAD_PUSH in
    1:*: | *:kubernetes:) echo "PUSH is not set, so the nightly retraining will fail: its branch would be lost with its container; see docs/fleet.md" ;;
esac
[ -z "${RANKGRAD_ALERTS_URL:-}" ] || python deploy/prepare.py alerts
