"""The program of tests/bench/sdk: runs in a trial and prints one JSON line per measure."""

import http.client
import http.server
import json
import multiprocessing
import statistics
import time

import muster

ROUNDS = 5


def tell(measure, value, unit, peer, goal, smaller=True):
    """Prints a measure. `peer` is (name, value); the ratio says how many times better ours is."""
    ratio = (peer[1] / value if smaller else value / peer[1]) if peer else None
    print(json.dumps({"bench": "sdk", "measure": measure, "value": round(value, 3), "unit": unit,
                      "peer": peer and {"name": peer[0], "value": round(peer[1], 3)},
                      "ratio": ratio and round(ratio, 3), "goal": goal,
                      "met": None if goal is None else value <= goal if smaller else value >= goal}), flush=True)


def cost(call, count, pause):
    """The median time of call(i) in microseconds, with pauses in which the other threads work."""
    times = []
    for number in range(count):
        begin = time.perf_counter_ns()
        call(number)
        times.append(time.perf_counter_ns() - begin)
        if number % pause == 0:
            time.sleep(0.001)
    return statistics.median(times) / 1000


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize, disable_nagle_algorithm = 65536, True  # an answer is one packet

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def serve(pipe):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    pipe.send(server.server_address[1])
    server.serve_forever()


def post_cost(count):
    """The cost of a report that is posted at once, over a connection that stays open, to a server that does nothing."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    client = http.client.HTTPConnection("127.0.0.1", ours.recv())

    def post(step):
        body = {"group": "training", "metrics": {"stepsCompleted": step, "metrics": {"avgMetrics": {"loss": 0.5 * step}}}}
        client.request("POST", "/api/v1/trials/1/metrics", json.dumps(body))
        client.getresponse().read()

    median = cost(post, count, 10)
    process.terminate()
    return median


def measure_costs(run):
    kept, base = [], [0]
    posted = post_cost(1000)

    def start():
        base[0] += 100_000

    for metrics in (1, 3, 10):
        names = [f"metric{number}" for number in range(metrics)]
        ours, peers = [], []
        for _ in range(ROUNDS):
            start()
            ours.append(cost(lambda n: run.report(base[0] + n, dict.fromkeys(names, 0.5 * n)), 5000, 10))
            peers.append(cost(lambda n: kept.append((base[0] + n, dict.fromkeys(names, 0.5 * n))), 5000, 10))
        tell(f"report of {metrics} metrics, training thread", statistics.median(ours), "us",
             ("append to a list", statistics.median(peers)), 5.0)
        if metrics == 1:
            tell("report of 1 metric, training thread, against a post", statistics.median(ours), "us",
                 ("synchronous post, answered at once", posted), 5.0)
    return posted


def measure_rate(run, count, posted):
    """Reports as fast as the loop can; the end is when the supervisor has all of them."""
    base, rates, busy = 10_000_000, [], []
    for _ in range(ROUNDS):
        begin, cpu = time.perf_counter(), time.process_time()
        for step in range(base, base + count):
            run.report(step, loss=0.37 * step)
        run.flush()
        rates.append(count / (time.perf_counter() - begin))
        busy.append((time.process_time() - cpu) / count * 1e6)
        base += count
    tell("reports in a second, until the supervisor has them", statistics.median(rates), "1/s",
         ("synchronous posts", 1e6 / posted), 100_000, smaller=False)
    tell("CPU time of a report, all threads", statistics.median(busy), "us", None, None)


def measure_points(run):
    """The cost of the agreement about stopping, as run.steps() makes it: one rank."""
    def loop(steps):
        begin = time.perf_counter()
        for _ in steps:
            pass
        return (time.perf_counter() - begin) * 1e6

    ours = [loop(run.steps(0, 200_000)) / 200_000 for _ in range(ROUNDS)]
    peer = [loop(range(200_000)) / 200_000 for _ in range(ROUNDS)]
    tell("one step of run.steps(), one rank", statistics.median(ours), "us", ("range", statistics.median(peer)), 5.0)


def main():
    with muster.init() as run:
        posted = measure_costs(run)
        measure_points(run)
        measure_rate(run, run.hparams["reports"] // ROUNDS, posted)


if __name__ == "__main__":
    main()
