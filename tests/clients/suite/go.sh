# Clients in Go.

suite_go() {
    (cd "$HERE/suite/go" && go build -o "$WORK/go-clients" .) >"$WORK/go.log" 2>&1 || {
        verdict go "the clients build" failed "$(tail -n 3 "$WORK/go.log" | tr '\n' ' ')"
        return
    }
    clients_program go "$WORK/go-clients" "$KAFKA"
}
