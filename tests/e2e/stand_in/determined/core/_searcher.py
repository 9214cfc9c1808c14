"""The deprecated operations: one for each trial, made from searcher.max_length. The master takes no part."""


class SearcherOperation:
    def __init__(self, session, trial, length, is_chief):
        self._session, self._trial, self.length, self._is_chief = session, trial, length, is_chief
        self._completed = False

    def report_progress(self, length):
        self._check_chief()
        progress = min(1.0, max(0.0, length / self.length))
        self._session.post(f"/api/v1/trials/{self._trial}/progress", {"progress": progress, "is_raw": True})

    def report_completed(self, searcher_metric):
        self._check_chief()
        self._completed = True

    def _check_chief(self):
        if not self._is_chief:
            raise RuntimeError("only the chief may report")


class SearcherContext:
    def __init__(self, session, distributed, trial):
        self._session, self._dist, self._trial = session, distributed, trial

    def _length(self):
        length = self._trial._config["searcher"].get("max_length")
        return next(iter(length.values())) if isinstance(length, dict) else length

    def operations(self):
        chief = self._dist.rank == 0
        length = self._dist.broadcast(self._length() if chief else None)
        operation = SearcherOperation(self._session, self._trial.trial_id, length, chief)
        yield operation
        if chief and not operation._completed:
            raise RuntimeError("report_completed() must be called for each operation")
        self._dist.broadcast(None)
