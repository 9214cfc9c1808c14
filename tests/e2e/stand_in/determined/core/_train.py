import enum
import queue
import threading

from determined._session import APIException

WAITING = 1000  # reports; a program that reports faster than the master takes them waits


class EarlyExitReason(enum.Enum):
    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class MetricShipper:
    """A thread that sends the reports in their order."""

    def __init__(self, session, trial, run):
        self.session, self.trial, self.run_id = session, trial, run
        self.reports, self.failures = queue.Queue(WAITING), queue.Queue()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.thread.start()

    def run(self):
        try:
            while (report := self.reports.get()) is not None:
                self.session.post(f"/api/v1/trials/{self.trial}/metrics", report)
        except Exception as error:
            self.failures.put(error)

    def report(self, group, steps, metrics, batch_metrics):
        self.raise_failure()
        self.reports.put({"group": group, "metrics": {
            "trialId": self.trial, "trialRunId": self.run_id, "stepsCompleted": steps, "reportTime": None,
            "metrics": {"avgMetrics": metrics, "batchMetrics": batch_metrics}}})

    def raise_failure(self):
        if not self.failures.empty():
            raise self.failures.get()

    def close(self):
        self.raise_failure()
        self.reports.put(None)
        self.thread.join()
        self.raise_failure()


class TrainContext:
    def __init__(self, session, trial, metrics):
        self._session, self._metrics = session, metrics
        self._trial, self._experiment = f"/api/v1/trials/{trial.trial_id}", f"/api/v1/experiments/{trial.experiment_id}"

    def set_status(self, status):
        self._session.post(f"{self._trial}/runner/metadata", {"state": status})

    def report_training_metrics(self, steps_completed, metrics, batch_metrics=None):
        self._metrics.report("training", steps_completed, metrics, batch_metrics)

    def report_validation_metrics(self, steps_completed, metrics):
        if None in metrics.values():
            raise RuntimeError(f"a validation metric is None: {metrics}")
        self._metrics.report("validation", steps_completed, metrics, None)

    def report_metrics(self, group, steps_completed, metrics):
        self._metrics.report(group, steps_completed, metrics, None)

    def report_progress(self, progress):
        self._session.post(f"{self._trial}/progress", {"progress": progress, "is_raw": True})

    def report_early_exit(self, reason):
        try:
            self._session.post(f"{self._trial}/early_exit", {"reason": EarlyExitReason(reason).value})
        except APIException as error:
            if error.status_code != 400:  # a reason was reported already
                raise

    def get_experiment_best_validation(self):
        try:
            return float(self._session.get(f"{self._experiment}/searcher/best_searcher_validation_metric")["metric"])
        except APIException as error:
            if error.status_code != 404:  # there is no validation yet
                raise
            return None
