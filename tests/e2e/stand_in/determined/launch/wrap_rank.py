"""Runs a program and puts "[rank=N] " before each line of its output.

    python3 -m determined.launch.wrap_rank RANK PROGRAM...   # RANK: a number, or the name of a variable
"""

import os
import signal
import subprocess
import sys
import threading


def forward(source, target, rank):
    for line in source:
        os.write(target, f"[rank={rank}] ".encode() + line.rstrip(b"\r\n") + b"\n")


def main():
    rank, *command = sys.argv[1:]
    command = command[1:] if command[0] == "--" else command
    rank = rank if rank.isdigit() else next(os.environ[name] for name in rank.split(",") if name in os.environ)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        signal.signal(number, lambda received, _: process.send_signal(received))
    threads = [threading.Thread(target=forward, args=(process.stdout, 1, rank)),
               threading.Thread(target=forward, args=(process.stderr, 2, rank))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
