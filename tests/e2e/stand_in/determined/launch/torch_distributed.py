"""Starts a program on every slot of this machine with torch.distributed.run.

    python3 -m determined.launch.torch_distributed [FLAGS OF torch.distributed.run --] PROGRAM...
"""

import os
import signal
import subprocess
import sys

from determined import get_cluster_info


def main():
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else -1
    flags, program = words[:max(split, 0)], words[split + 1:]
    info = get_cluster_info()
    machines = info.container_addrs
    os.environ["USE_TORCH_DISTRIBUTED"] = "True"
    os.environ["DET_CHIEF_IP"] = machines[0]
    process = subprocess.Popen([
        "python3", "-m", "torch.distributed.run", "--nnodes", str(len(machines)), "--nproc_per_node",
        str(len(info.slot_ids)), "--node_rank", str(info.container_rank), "--max_restarts", "0", "--master_addr",
        "localhost" if len(machines) == 1 else machines[0], "--master_port", os.environ.get("C10D_PORT", "29400"),
        "--module", *flags, "determined.launch.wrap_rank", "RANK", "--", *program])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH):
        signal.signal(number, lambda received, _: process.send_signal(received))
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
