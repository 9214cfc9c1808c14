import os
import pickle
import shutil
import socket
import struct
import tempfile
import time

CONNECT_S = 300


class Star:
    """Connections of a chief, member 0, with the other members of a group."""

    def __init__(self, size, member, family, address):
        self.size, self.member = size, member
        self.sockets = [] if size == 1 else (
            self._accept(family, address) if member == 0 else [self._connect(family, address)])

    def _accept(self, family, address):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(self.size)
        members = {}
        while len(members) < self.size - 1:
            link = listener.accept()[0]
            members[self._receive(link)] = link
        listener.close()
        return [members[member] for member in sorted(members)]

    def _connect(self, family, address):
        deadline = time.monotonic() + CONNECT_S
        while True:
            link = socket.socket(family, socket.SOCK_STREAM)
            try:
                link.connect(address)
                break
            except OSError:
                link.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._send(link, self.member)
        return link

    @staticmethod
    def _send(link, value):
        data = pickle.dumps(value)
        link.sendall(struct.pack("!Q", len(data)) + data)

    @staticmethod
    def _receive(link):
        def read(count):
            data = bytearray()
            while len(data) < count:
                part = link.recv(count - len(data))
                if not part:
                    raise ConnectionError("another worker has gone")
                data += part
            return bytes(data)
        return pickle.loads(read(struct.unpack("!Q", read(8))[0]))

    def gather(self, value):
        """Returns the values of all members to the chief, None to the others."""
        if self.member:
            self._send(self.sockets[0], value)
            return None
        return [value, *(self._receive(link) for link in self.sockets)]

    def broadcast(self, value):
        if self.member:
            return self._receive(self.sockets[0])
        for link in self.sockets:
            self._send(link, value)
        return value

    def allgather(self, value):
        return self.broadcast(self.gather(value))

    def close(self):
        for link in self.sockets:
            link.close()


class DistributedContext:
    def __init__(self, *, rank, size, local_rank, local_size, cross_rank, cross_size, chief_ip=None):
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self.cross_rank, self.cross_size = cross_rank, cross_size
        if local_size == size:
            chief_ip = "127.0.0.1"
        elif chief_ip is None:
            raise AssertionError("workers on several machines need chief_ip")
        self._folder = None
        port = int(os.environ.get("INTER_TRAIN_PROCESS_COMM_PORT_1", "12360"))
        self._all = Star(size, rank, socket.AF_INET, ("" if rank == 0 else chief_ip, port))
        self._local = self._join_local()

    def _join_local(self):
        if self.local_rank == 0 and self.local_size > 1:
            self._folder = tempfile.mkdtemp(prefix="workers")
        folders = self.allgather(None if self.local_rank else (self.cross_rank, self._folder))
        path = os.path.join(dict(filter(None, folders))[self.cross_rank] or "", "socket")
        return Star(self.local_size, self.local_rank, socket.AF_UNIX, path)

    @classmethod
    def of_one(cls):
        return cls(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)

    @classmethod
    def from_torch_distributed(cls, chief_ip=None):
        number = {name: int(os.environ[name]) for name in (
            "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")}
        return cls(rank=number["RANK"], size=number["WORLD_SIZE"], local_rank=number["LOCAL_RANK"],
                   local_size=number["LOCAL_WORLD_SIZE"], cross_rank=number["GROUP_RANK"],
                   cross_size=number["GROUP_WORLD_SIZE"], chief_ip=chief_ip or os.environ.get("DET_CHIEF_IP"))

    def get_rank(self):
        return self.rank

    def get_local_rank(self):
        return self.local_rank

    def get_size(self):
        return self.size

    def get_num_agents(self):
        return self.cross_size

    def gather(self, stuff):
        return self._all.gather(stuff)

    def gather_local(self, stuff):
        return self._local.gather(stuff)

    def allgather(self, stuff):
        return self._all.allgather(stuff)

    def allgather_local(self, stuff):
        return self._local.allgather(stuff)

    def broadcast(self, stuff):
        return self._all.broadcast(stuff)

    def broadcast_local(self, stuff=None):
        return self._local.broadcast(stuff)

    def close(self):
        self._local.close()
        self._all.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
