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

# mark_of FILE: a name for what the file says, for the directory of what is fetched by it.
mark_of() { cksum <"$1" | tr ' ' '-'; }

# fetch_jars POM DIRECTORY [BELOW]: the jars that a pom names, once, in the directory or in one below it.
fetch_jars() {
    once "$2" mvn --quiet --batch-mode -Dstyle.color=never -f "$1" \
        dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$2.part${3:+/$3}"
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
    local directory
    directory=$KEPT/suite-python-$(mark_of "$HERE/suite/requirements.txt")
    PYTHON=$directory/bin/python
    [ -x "$PYTHON" ] && return
    python3 -m venv --clear "$directory" &&
        "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$HERE/suite/requirements.txt"
}

# The Java tools and broker of Apache Kafka: their jars.
suite_jars() {
    JARS=$KEPT/suite-jars-$(mark_of "$HERE/suite/java/pom.xml")
    fetch_jars "$HERE/suite/java/pom.xml" "$JARS"
}
