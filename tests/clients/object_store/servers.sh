# Object stores on this machine, empty and in memory. To be sourced after prepare.sh.
#
# use_store s3|az|gs|s3rver starts one with a bucket, sets DATA, and exports the settings that the binary needs for it.

FAKE_GCS_VERSION=v1.56.1
STORE_SECONDS=60
STORE_PIDS=()
trap 'stop_store; end' EXIT

stop_store() {
    local pid
    for pid in "${STORE_PIDS[@]}"; do stop_living "the object store" "$pid" KILL; done
    STORE_PIDS=()
}

# launch PATTERN COMMAND...: starts a server and waits for the line that sed's PATTERN takes its URL from.
launch() {
    local pattern=$1 output=$WORK/store.${#STORE_PIDS[@]} _
    shift
    "$@" >"$output" 2>&1 &
    STORE_PIDS+=($!)
    for _ in $(seq $((STORE_SECONDS * 10))); do
        STORE_URL=$(sed -n "$pattern" "$output" | head -n 1)
        if [ -n "$STORE_URL" ]; then return 0; fi
        kill -0 "${STORE_PIDS[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    echo "FAILED $(basename "$1") starts: $(tail -n 3 "$output" | tr '\n' ' ')" | record
    return 1
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

fetch_store_packages() {
    cp "$HERE/object_store/package.json" .
    npm install --no-audit --no-fund --silent
}

# The servers that are made in JavaScript.
store_packages() {
    need npm node
    NODE_BIN=$KEPT/store-node-$(mark_of "$HERE/object_store/package.json")
    once "$NODE_BIN" fetch_store_packages
    NODE_BIN=$NODE_BIN/node_modules/.bin
}

store_python() {
    python3 -m venv venv
    venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$HERE/object_store/requirements.txt"
}

# S3 by moto.
use_s3() {
    local moto
    moto=$KEPT/store-python-$(mark_of "$HERE/object_store/requirements.txt")
    once "$moto" store_python || return 1
    launch 's/.*Running on \(http:[^ ]*\).*/\1/p' "$moto/venv/bin/python" -m moto.server -H 127.0.0.1 -p 0 || return 1
    export AWS_ENDPOINT_URL=$STORE_URL AWS_ACCESS_KEY_ID=moto AWS_SECRET_ACCESS_KEY=moto STRANDLINE_S3_ALLOW_HTTP=true
    python3 "$HERE/object_store/bucket.py" s3 "$STORE_URL/logs"
    DATA=s3://logs/strandline
}

# Azure by Azurite, with an account of its own.
use_az() {
    store_packages || return 1
    AZURE_STORAGE_ACCOUNT_KEY=$(head -c 32 /dev/urandom | base64 -w 0)
    export AZURE_STORAGE_ACCOUNT_NAME=account AZURE_STORAGE_ACCOUNT_KEY
    launch 's/.*listens on \(http:[^ ]*\).*/\1/p' env "AZURITE_ACCOUNTS=account:$AZURE_STORAGE_ACCOUNT_KEY" \
        "$NODE_BIN/azurite-blob" --blobHost 127.0.0.1 --blobPort 0 --inMemoryPersistence --disableTelemetry || return 1
    export AZURE_STORAGE_ENDPOINT=$STORE_URL/account STRANDLINE_AZURE_ALLOW_HTTP=true
    python3 "$HERE/object_store/bucket.py" az "$AZURE_STORAGE_ENDPOINT/logs"
    DATA=az://logs/strandline
}

# Google Cloud Storage by fake-gcs-server, through gcs_xml.py: it checks conditions in its JSON interface only.
use_gs() {
    local fake=$KEPT/fake-gcs-server-$FAKE_GCS_VERSION port
    need go
    once "$fake" env "GOBIN=$fake.part" go install "github.com/fsouza/fake-gcs-server@$FAKE_GCS_VERSION" || return 1
    port=$(free_port)
    launch 's/.*server started at \(http:[^" ]*\).*/\1/p' "$fake/fake-gcs-server" -backend memory -scheme http \
        -host 127.0.0.1 -port "$port" -public-host gcs || return 1
    python3 "$HERE/object_store/bucket.py" gs "$STORE_URL/storage/v1/b?project=test"
    launch 's/^\(http:.*\)/\1/p' python3 "$HERE/object_store/gcs_xml.py" "127.0.0.1:$port" gcs || return 1
    export STRANDLINE_GCS_ENDPOINT=$STORE_URL STRANDLINE_GCS_ALLOW_HTTP=true
    export GOOGLE_SERVICE_ACCOUNT_KEY='{"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": true}'
    DATA=gs://logs/strandline
}

# A server of the S3 protocol that ignores the condition of a put.
use_s3rver() {
    store_packages || return 1
    mkdir -p "$WORK/s3rver"
    launch 's/^S3rver listening on \(.*\)/http:\/\/\1/p' "$NODE_BIN/s3rver" -d "$WORK/s3rver" -a 127.0.0.1 -p 0 \
        --configure-bucket logs || return 1
    export AWS_ENDPOINT_URL=$STORE_URL AWS_ACCESS_KEY_ID=S3RVER AWS_SECRET_ACCESS_KEY=S3RVER STRANDLINE_S3_ALLOW_HTTP=true
    DATA=s3://logs/strandline
}

use_store() {
    case $1 in
    s3 | az | gs | s3rver) "use_$1" ;;
    *)
        echo "FAILED the store is one of s3, az, gs: $1" | record
        return 1
        ;;
    esac
}
