"""Forwards a port of this machine to another one, as a tunnel would: PORT HOST:PORT."""

import socket
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        target.close()


def main(port, target):
    host, target_port = target.rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection((host, int(target_port)))
        except OSError:
            client.close()
            continue
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        threading.Thread(target=pump, args=(server, client), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
