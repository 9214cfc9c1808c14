"""A server with TLS that is no master: it records what clients send after the handshake."""

import re
import socket
import ssl
import subprocess
import threading

from cluster import BIN


def make_certificates(folder):
    """Runs --init for a data folder; returns the fingerprint of the authority."""
    done = subprocess.run([BIN / "muster-master", "--init", "--data-dir", folder], capture_output=True, text=True, check=True)
    return re.search(r"^fingerprint: ([0-9a-f]{64})$", done.stdout, re.M).group(1)


class TlsRecorder:
    """Serves with the certificate of DATA_DIR/tls on a free port of 127.0.0.1."""

    def __init__(self, data_dir):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(data_dir / "tls" / "server.pem", data_dir / "tls" / "server.key")
        self.received = b""
        self.connections = 0

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.record, args=(plain,), daemon=True).start()

    def record(self, plain):
        plain.settimeout(60)
        try:
            with self.context.wrap_socket(plain, server_side=True) as peer:
                while part := peer.recv(65536):
                    self.received += part
        except OSError:
            pass  # the client has left, perhaps because it does not trust the certificate
