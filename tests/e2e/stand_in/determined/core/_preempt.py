import enum
import threading
import time

LONG_POLL_S, ANSWER_S, PAUSE_S = 60, 10, 10


class PreemptMode(enum.Enum):
    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class Watcher:
    """A thread that asks the master until it gets the signal."""

    def __init__(self, session, allocation):
        self.session = session
        self.path = f"/api/v1/allocations/{allocation}/signals/preemption?timeout_seconds="
        self.signal, self.closed, self.asked = False, False, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def ask(self, seconds):
        return self.session.get(f"{self.path}{seconds}", timeout=seconds + ANSWER_S)["preempt"] is True

    def run(self):
        try:
            self.signal = self.ask(0)
        except Exception as error:
            print(f"cannot ask for preemption, continuing: {error}")
        self.asked.set()
        while not self.signal and not self.closed:
            try:
                self.signal = self.ask(LONG_POLL_S)
            except Exception as error:
                print(f"cannot ask for preemption, asking again in {PAUSE_S} s: {error}")
                time.sleep(PAUSE_S)


class PreemptContext:
    def __init__(self, session, allocation, distributed, mode):
        self._session, self._dist, self._mode = session, distributed, PreemptMode(mode)
        self._ack_path = f"/api/v1/allocations/{allocation}/signals/ack_preemption"
        asks = distributed.rank == 0 or self._mode is PreemptMode.WorkersAskMaster
        self._watcher = Watcher(session, allocation) if asks else None
        self._acknowledged = False

    def start(self):
        if self._watcher:
            self._watcher.thread.start()

    def close(self):
        if self._watcher:
            self._watcher.closed = True

    def should_preempt(self, auto_ack=True):
        signal = None
        if self._watcher:
            self._watcher.asked.wait()
            signal = self._watcher.signal
            if signal and auto_ack and not self._acknowledged:
                self.acknowledge_preemption_signal()
                self._acknowledged = True
        elif self._mode is PreemptMode.ChiefOnly:
            raise RuntimeError("only the chief may call should_preempt() with PreemptMode.ChiefOnly")
        return self._dist.broadcast(signal) if self._mode is PreemptMode.WorkersAskChief else signal

    def acknowledge_preemption_signal(self):
        self._session.post(self._ack_path)
