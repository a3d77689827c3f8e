# The integration tests of kafka-python, from its source distribution, which lacks one module of theirs.

KAFKA_PYTHON_SECONDS=400

fetch_kafka_python() {
    local version=$1
    "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: "kafka-python==$version"
    tar xzf "kafka_python-$version.tar.gz" --strip-components=1
    touch test/__init__.py
    cat >test/service.py <<'PYTHON'
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
PYTHON
}

suite_kafka_python() {
    local version source log=$WORK/kafka_python.log status=0
    suite_python
    version=$(sed -n 's/^kafka-python==//p' "$HERE/suite/requirements.txt")
    source=$KEPT/kafka-python-$version
    once "$source" fetch_kafka_python "$version" || return 1
    # The fixtures look for a directory of Kafka's scripts, which is not used with a server that runs already.
    (cd "$source" && COLUMNS=400 KAFKA_ROOT=$WORK PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 KAFKA_URI=kafka://$KAFKA KAFKA_VERSION=4.1.0 \
        timeout "$KAFKA_PYTHON_SECONDS" "$PYTHON" -m pytest -q -p no:cacheprovider --timeout 90 --tb no -rA \
        --ignore test/integration/test_ssl_integration.py --ignore test/integration/test_sasl_integration.py test/integration) >"$log" 2>&1 || status=$?
    local outcome test reason
    while read -r outcome test reason; do
        case $outcome in
        PASSED) verdict kafka_python "${test##*::}" passed ;;
        FAILED | ERROR) verdict kafka_python "${test##*::}" failed "${reason#- }" ;;
        esac
    done < <(grep -E '^(PASSED|FAILED|ERROR) test/' "$log")
    # 0 and 1: all tests were run, and none or some failed.
    if [ "$status" -gt 1 ] || ! grep -q ' passed' "$log"; then
        verdict kafka_python "all" failed "exit code $status: $(tail -n 3 "$log" | tr '\n' ' ')"
    fi
}
