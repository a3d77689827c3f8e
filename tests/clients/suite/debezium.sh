# Debezium in Connect, with exactly-once: the changes of a table of a PostgreSQL that is started here become records.

. "$HERE/suite/kafka_broker.sh"

DEBEZIUM_SECONDS=90
DEBEZIUM_TOPIC=shop.public.orders

suite_debezium() {
    local postgres plugins directory=$WORK/debezium ports
    postgres=$(find /usr/lib/postgresql -name initdb -printf '%h\n' 2>/dev/null | sort -V | tail -n 1)
    if [ -z "$postgres" ]; then
        verdict debezium all skipped "it needs the server of PostgreSQL"
        return
    fi
    suite_jars || return 1
    debezium_jars || return 1
    mkdir "$directory"
    read -r -a ports < <(free_ports 2)
    start_postgres || return 1
    start_connect
    snapshot
    changes
    restart
    stop_connect
    stop_postgres
}

debezium_jars() {
    plugins=$KEPT/suite-debezium-$(mark_of "$HERE/suite/debezium/pom.xml")
    fetch_jars "$HERE/suite/debezium/pom.xml" "$plugins" debezium
}

# as_postgres COMMAND...: PostgreSQL does not run as root.
as_postgres() {
    if [ "$(id -u)" -eq 0 ]; then
        runuser -u postgres -- "$@"
    else
        "$@"
    fi
}

shop() { timeout 30 psql -X -q -h 127.0.0.1 -p "${ports[0]}" -U postgres -d postgres -v ON_ERROR_STOP=1 -c "$1"; }

start_postgres() {
    local database=$directory/database _
    mkdir "$database"
    if [ "$(id -u)" -eq 0 ]; then
        chmod 711 "$WORK" "$directory"
        chown postgres "$database"
    fi
    as_postgres "$postgres/initdb" -D "$database" -A trust -U postgres >"$directory/postgres.log" 2>&1
    as_postgres "$postgres/pg_ctl" -D "$database" -w -t 60 -l "$database/log" \
        -o "-c wal_level=logical -c listen_addresses=127.0.0.1 -c port=${ports[0]} -c unix_socket_directories=$database" \
        start >>"$directory/postgres.log" 2>&1 || {
        verdict debezium "PostgreSQL starts" failed "$(tail -n 3 "$directory/postgres.log" | tr '\n' ' ')"
        return 1
    }
    trap 'stop_postgres; end' EXIT
    shop 'CREATE TABLE orders (id int PRIMARY KEY, item text, price numeric(10, 2), at timestamptz DEFAULT now())'
    shop "INSERT INTO orders SELECT n, 'item ' || n, n * 1.25 FROM generate_series(1, 100) AS n"
}

stop_postgres() {
    as_postgres "$postgres/pg_ctl" -D "$directory/database" -w -t 60 -m immediate stop >>"$directory/postgres.log" 2>&1
    trap end EXIT
}

start_connect() {
    local _
    cat >"$directory/worker.properties" <<PROPERTIES
bootstrap.servers=$KAFKA
group.id=debezium
exactly.once.source.support=enabled
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false
config.storage.topic=debezium-configs
offset.storage.topic=debezium-offsets
status.storage.topic=debezium-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=500
listeners=HTTP://127.0.0.1:${ports[1]}
plugin.path=$plugins
PROPERTIES
    java -XX:TieredStopAtLevel=1 -Xmx512m -cp "$JARS/*" org.apache.kafka.connect.cli.ConnectDistributed "$directory/worker.properties" \
        >>"$directory/log" 2>&1 &
    connect_pid=$!
    cat >"$directory/connector.json" <<JSON
{"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1",
 "database.hostname": "127.0.0.1", "database.port": "${ports[0]}", "database.user": "postgres",
 "database.dbname": "postgres", "plugin.name": "pgoutput", "topic.prefix": "shop", "decimal.handling.mode": "string",
 "topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
JSON
    # Until its web server is there, and it leads the group.
    for _ in $(seq "$DEBEZIUM_SECONDS"); do
        if curl -sf --max-time 20 -X PUT -H 'Content-Type: application/json' --data "@$directory/connector.json" \
            "http://127.0.0.1:${ports[1]}/connectors/shop/config" >"$directory/answer"; then return; fi
        kill -0 "$connect_pid" 2>/dev/null || return 0
        sleep 1
    done
}

stop_connect() { stop_living "debezium Connect" "$connect_pid" KILL; }

# changed NAME COUNT EXPECTED: waits until there are that many records that are committed, and compares how many there are
# of each kind: read, created, updated, deleted, and the tombstone (-).
changed() {
    local name=$1 count=$2 expected=$3 found='' kinds end=$((SECONDS + DEBEZIUM_SECONDS))
    while [ "$SECONDS" -lt "$end" ] && kill -0 "$connect_pid" 2>/dev/null; do
        timeout 20 kcat -q -b "$KAFKA" -C -t "$DEBEZIUM_TOPIC" -o beginning -e -Z -X isolation.level=read_committed \
            >"$directory/read" 2>"$directory/kcat" || found="kcat ends with $?"
        if [ "$(wc -l <"$directory/read")" -ge "$count" ]; then break; fi
        sleep 0.5
    done
    kinds=$(sed 's/.*"op":"\([a-z]\)".*/\1/; s/^NULL$/-/' "$directory/read" | sort | uniq -c | awk '{ print $2 "=" $1 }' | paste -sd ' ')
    if [ "$kinds" = "$expected" ]; then
        verdict debezium "$name" passed
    else
        verdict debezium "$name" failed "'$kinds' instead of '$expected' $found: $(grep -m 1 -E 'ERROR|Exception' "$directory/log" || tail -n 1 "$directory/log")"
    fi
}

snapshot() { changed "a table's rows become records" 100 'r=100'; }

changes() {
    shop "INSERT INTO orders VALUES (101, 'late', 7)"
    shop 'UPDATE orders SET price = 0 WHERE id = 5'
    shop 'DELETE FROM orders WHERE id = 6'
    changed "its changes become records" 104 '-=1 c=1 d=1 r=100 u=1'
    [ -n "$SERVER" ] || return 0
    same "debezium SQL sees the changes" $'c|late|7.00\nd||\nu|item 5|0.00' \
        timeout 30 psql -X -A -t -h "${PG%:*}" -p "${PG##*:}" -U test -d strandline -c "SELECT op, after ->> 'item', after ->> 'price' FROM \"$DEBEZIUM_TOPIC\" WHERE op <> 'r' ORDER BY op"
}

restart() {
    stop_connect
    shop "INSERT INTO orders VALUES (102, 'later', 8)"
    start_connect
    changed "a restart goes on behind the last change" 105 '-=1 c=2 d=1 r=100 u=1'
}
