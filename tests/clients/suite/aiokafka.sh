# aiokafka, whose distribution has no tests: a program.

suite_aiokafka() {
    suite_python
    clients_program aiokafka "$PYTHON" "$HERE/suite/aiokafka/check.py" "$KAFKA"
}
