# rsyslog with its module for Kafka, from Debian's packages, unpacked and not installed: lines of a file become records.

RSYSLOG_SECONDS=60

fetch_rsyslog() {
    local package
    apt-get -q -o APT::Sandbox::User=root download rsyslog rsyslog-kafka libestr0 libfastjson4 librdkafka1
    for package in ./*.deb; do dpkg-deb -x "$package" .; done
    rm ./*.deb
}

suite_rsyslog() {
    local root=$KEPT/rsyslog directory=$WORK/rsyslog libraries pid _ read=
    once "$root" fetch_rsyslog || return 1
    mkdir -p "$directory"
    seq -f 'line %g' 1 100 >"$directory/in"
    cat >"$directory/rsyslog.conf" <<CONF
global(workDirectory="$directory")
module(load="imfile" mode="polling" pollingInterval="1")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
input(type="imfile" file="$directory/in" tag="in")
action(type="omkafka" broker=["$KAFKA"] topic="rsyslog" template="line" partitions.number="4" confParam=["compression.codec=snappy"])
CONF
    libraries=$(dirname "$(find "$root" -name 'libestr.so.0' | head -n 1)")
    LD_LIBRARY_PATH=$libraries:$(dirname "$libraries")/usr/lib "$root/usr/sbin/rsyslogd" -n -iNONE \
        -M "$(dirname "$(find "$root" -name omkafka.so)")" -f "$directory/rsyslog.conf" >"$directory/log" 2>&1 &
    pid=$!
    for _ in $(seq "$RSYSLOG_SECONDS"); do
        read=$(timeout 10 kcat -q -b "$KAFKA" -C -t rsyslog -o beginning -e 2>/dev/null | sort -u | wc -l)
        if [ "$read" -eq 100 ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
        sleep 1
    done
    if [ "$read" -eq 100 ]; then
        verdict rsyslog "a file's lines become records" passed
    else
        verdict rsyslog "a file's lines become records" failed "$read of 100 lines were read: $(tail -n 2 "$directory/log" | tr '\n' ' ')"
    fi
    stop_living rsyslog "$pid" KILL
}
