# The scripts that test kcat, from the source of Debian's package, with the kcat that is installed.

KCAT_SECONDS=120

# The source lists of this machine, asked for sources, beside its own lists and caches.
fetch_kcat() {
    local options status=0
    mkdir -p lists/partial cache parts
    cp /etc/apt/sources.list.d/*.sources parts/
    sed -i 's/^Types: deb$/Types: deb-src/' parts/*.sources
    options=(-q -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$PWD/parts" -o "Dir::State::lists=$PWD/lists"
        -o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    # The packaging may be gone, which is 100, while the source itself is still there.
    apt-get "${options[@]}" --download-only source kcat || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 100 ] || return "$status"
    tar xzf ./*.orig.tar.gz --strip-components=1
    rm -rf lists cache parts
}

suite_kcat() {
    local source script log status
    source=$KEPT/kcat-$(kcat -V | sed -n 's/^Version \([0-9.]*\).*/\1/p')
    once "$source" fetch_kcat || return 1
    mkdir -p "$WORK/kcat"
    cp -r "$source/tests" "$WORK/kcat/"
    ln -sf "$(command -v kcat)" "$WORK/kcat/kcat"
    for script in "$WORK/kcat/tests"/0*.sh; do
        log=$WORK/kcat.log status=0
        # On a terminal, because kcat consumes by itself only there.
        (cd "$WORK/kcat/tests" && BROKERS=$KAFKA timeout "$KCAT_SECONDS" script -qec "bash $script" /dev/null) \
            </dev/null >"$log" 2>&1 || status=$?
        if grep -q 'TEST SKIPPED' "$log"; then
            verdict kcat "$(basename "$script" .sh)" skipped "$(sed -n 's/.*TEST SKIPPED: \([^\x1b]*\).*/\1/p' "$log")"
        elif [ "$status" -eq 0 ]; then
            verdict kcat "$(basename "$script" .sh)" passed
        else
            verdict kcat "$(basename "$script" .sh)" failed "exit code $status: $(tail -n 2 "$log" | tr '\n' ' ')"
        fi
    done
}
