"""Whether a container does its work: exit status 0, or 1 and a line that says what is wrong.

healthy.py ready ADDRESS         the control plane there can do its work
healthy.py node ADDRESS          this host has joined it, under the address from which it is reached, and offers devices
healthy.py port ADDRESS          somebody takes connections there

With TBD_TLS_CERT set, as for the service, it asks by https. Certificates are not checked: nothing secret is sent, and
they are made for the names that clients use.

Run with ``python -IS``: it imports next to nothing, since it runs every few seconds beside what is measured.
"""

import os
import socket
import sys

PATIENCE_S = 4.0
SHOWN = 400


def main() -> int:
    what, address = sys.argv[1:]
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
            if what == "port":
                return 0
            own = connection.getsockname()[0]
            path = "/readyz" if what == "ready" else "/readyz?node=" + own
            status, body = get(encrypted(connection) if os.environ.get("TBD_TLS_CERT") else connection, host, path)
    except OSError as error:
        print(address + ": " + str(error))
        return 1
    print(body[:SHOWN])
    return 0 if status == 200 else 1


def encrypted(connection: socket.socket) -> socket.socket:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def get(connection: socket.socket, host: str, path: str) -> "tuple[int, str]":
    """Ask by HTTP; the status and the body."""
    request = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii"))
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    head, _, body = b"".join(parts).decode("utf-8", "replace").partition("\r\n\r\n")
    words = head.split()
    if len(words) < 2 or not words[1].isdigit():
        raise OSError("the answer is no HTTP")
    return int(words[1]), body


if __name__ == "__main__":
    sys.exit(main())
