# Tries connections between machines, with python3. ACTION=listen: listens on the first free of PORTS, for ten minutes in
# the background, and prints its port and process; check.sh knows it by the argument. ACTION=probe: sends to each of TARGETS (ADDRESS/PORT) for a moment and
# prints the megabits per second, or the fault. POSIX sh; runs as the user of the SSH session.
command -v python3 >/dev/null 2>&1 || {
    echo "python=missing"
    exit 0
}
export ACTION PORTS TARGETS
exec python3 - "muster-cluster-network:$PORTS" <<'END'
import os, signal, socket, sys, time

def receive(connection):
    signal.alarm(30) # anybody on the network may connect, and stay
    connection.settimeout(10)
    total = 0
    while data := connection.recv(1 << 20):
        total += len(data)
    connection.sendall(str(total).encode())
    connection.close()

def listen(ports):
    for port in ports:
        server = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            if server.family == socket.AF_INET6:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            server.bind(("", port))
            server.listen(64)
            break
        except OSError:
            server.close()
    else:
        return
    child = os.fork()
    if child:
        print(f"port={port}\nlistener={child}")
        return
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.alarm(600)
    children = []
    while True:
        connection, _ = server.accept()
        children = [one for one in children if os.waitpid(one, os.WNOHANG)[0] == 0]
        if len(children) < 64:
            child = os.fork()
            if child == 0:
                server.close()
                try:
                    receive(connection)
                finally:
                    os._exit(0)
            children.append(child)
        connection.close()

def probe(target):
    address, port = target.rsplit("/", 1)
    try:
        with socket.create_connection((address, int(port)), timeout=5) as connection:
            connection.settimeout(20)
            begin, block, sent = time.monotonic(), bytes(1 << 20), 0
            while time.monotonic() < begin + 0.5 and sent < 1 << 30 and BANDWIDTH:
                connection.sendall(block)
                sent += len(block)
            if BANDWIDTH:
                connection.shutdown(socket.SHUT_WR)
                total = int(connection.recv(64) or 0)
                return f"{total * 8 / 1e6 / (time.monotonic() - begin):.0f}"
            return "open"
    except (OSError, ValueError) as error:
        return "closed: " + (getattr(error, "strerror", None) or str(error))

if os.environ["ACTION"] == "listen":
    first, last = map(int, os.environ["PORTS"].split("-"))
    listen(range(first, last + 1))
else:
    for target in os.environ["TARGETS"].split():
        kind, target = target.split("@", 1)
        BANDWIDTH = kind == "ranks"
        print(f"probe {kind}={probe(target)}")
END
