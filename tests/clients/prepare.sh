# Tools and clients that are fetched or built once and kept outside of the checkout, by version. To be sourced after lib.sh.

KEPT=$CACHE/clients

# once DIRECTORY COMMAND...: runs the command in a new directory that is moved to its place when all went well.
once() {
    local directory=$1
    shift
    [ ! -d "$directory" ] || return 0
    rm -rf "$directory.part"
    mkdir -p "$directory.part"
    (cd "$directory.part" && "$@") >"$WORK/once" 2>&1 || {
        echo "FAILED $(basename "$directory") is prepared: $(tail -n 3 "$WORK/once" | tr '\n' ' ')" | record
        return 1
    }
    mv "$directory.part" "$directory"
}

# crate_source NAME: where cargo has put the source of a crate that the workspace uses.
crate_source() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    cargo metadata --locked --quiet --format-version 1 --filter-platform "$host" --manifest-path "$ROOT/Cargo.toml" |
        tr ',' '\n' | sed -n "s/.*\"manifest_path\":\"\(.*\/$1-[0-9][^/]*\)\/Cargo.toml\".*/\1/p" | head -n 1
}

# The Python of the client scripts, with the packages of requirements.txt.
prepare_python() {
    PYTHON=$KEPT/venv/bin/python
    if ! cmp -s "$HERE/requirements.txt" "$KEPT/requirements.txt"; then
        mkdir -p "$KEPT"
        python3 -m venv --clear "$KEPT/venv"
        "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$HERE/requirements.txt"
        cp "$HERE/requirements.txt" "$KEPT/requirements.txt"
    fi
}

# The Python of the suites, with the packages of suite/requirements.txt.
suite_python() {
    local mark
    mark=$(cksum <"$HERE/suite/requirements.txt" | tr ' ' '-')
    PYTHON=$KEPT/suite-python-$mark/bin/python
    [ -x "$PYTHON" ] && return
    python3 -m venv --clear "$KEPT/suite-python-$mark" &&
        "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$HERE/suite/requirements.txt"
}

# The Java tools and broker of Apache Kafka: their jars.
suite_jars() {
    local mark
    mark=$(cksum <"$HERE/suite/java/pom.xml" | tr ' ' '-')
    JARS=$KEPT/suite-jars-$mark
    once "$JARS" mvn --quiet --batch-mode -Dstyle.color=never -f "$HERE/suite/java/pom.xml" \
        dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$JARS.part"
}
