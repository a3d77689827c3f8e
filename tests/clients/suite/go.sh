# Clients in Go, and franz-go's own tests.

FRANZ_GO_SECONDS=400

suite_go() {
    (cd "$HERE/suite/go" && go build -o "$WORK/go-clients" .) >"$WORK/go.log" 2>&1 || {
        verdict go "the clients build" failed "$(tail -n 3 "$WORK/go.log" | tr '\n' ' ')"
        return
    }
    clients_program go "$WORK/go-clients" "$KAFKA"
    franz_go
}

fetch_franz_go() {
    local version=$1
    go mod init strandline/franz-go-tests
    go get -t "github.com/twmb/franz-go/pkg/kgo@$version"
    go test -c -o kgo.test github.com/twmb/franz-go/pkg/kgo
}

# The tests of its package kgo, with few records; those that need no server are among them.
franz_go() {
    local version tests package log=$WORK/franz-go.log status=0 outcome test
    version=$(sed -n 's/.*franz-go \(v[0-9.]*\).*/\1/p' "$HERE/suite/go/go.mod")
    tests=$KEPT/franz-go-$version
    once "$tests" fetch_franz_go "$version" || return 1
    package=$(cd "$tests" && go list -f '{{.Dir}}' github.com/twmb/franz-go/pkg/kgo)
    (cd "$package" && KGO_TEST_RF=1 KGO_SEEDS=$KAFKA KGO_TEST_RECORDS=2000 \
        timeout "$FRANZ_GO_SECONDS" "$tests/kgo.test" -test.timeout "$((FRANZ_GO_SECONDS - 5))s" -test.v) >"$log" 2>&1 || status=$?
    while read -r outcome test; do
        case $outcome in
        PASS) verdict go "franz-go $test" passed ;;
        FAIL) verdict go "franz-go $test" failed "$(grep -A 2 "$test" "$log" | grep -m 1 '_test.go' || echo 'it does not say where')" ;;
        SKIP) verdict go "franz-go $test" skipped "it says so" ;;
        esac
    done < <(sed -n 's/^--- \([A-Z]*\): \(Test[A-Za-z0-9_]*\) .*/\1 \2/p' "$log")
    if grep -q '^panic: test timed out' "$log"; then
        verdict go "franz-go, all" failed "after $FRANZ_GO_SECONDS s: $(grep -A 3 'running tests:' "$log" | tail -n +2 | tr -d '\n\t')"
    elif ! grep -q '^--- PASS: ' "$log" || { [ "$status" -ne 0 ] && ! grep -q '^--- FAIL: ' "$log"; }; then
        verdict go "franz-go, all" failed "exit code $status: $(tail -n 3 "$log" | tr '\n' ' ')"
    fi
}
