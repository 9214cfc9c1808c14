"""The facts about the running task, from the files in /run/determined/info. Each file must have exactly the keys that the
real library takes."""

import json
import pathlib

INFO = pathlib.Path("/run/determined/info")


def read(name):
    path = INFO / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


class TrialInfo:
    def __init__(self, trial_id, experiment_id, trial_seed, hparams, config, steps_completed, trial_run_id, debug,
                 inter_node_network_interface):
        self.trial_id, self.experiment_id, self.trial_seed = trial_id, experiment_id, trial_seed
        self.hparams, self._config, self._debug = hparams, config, debug
        self._steps_completed, self._trial_run_id = steps_completed, trial_run_id
        self._inter_node_network_interface = inter_node_network_interface


class RendezvousInfo:
    def __init__(self, container_addrs, container_rank, container_slot_counts):
        self.container_addrs, self.container_rank = container_addrs, container_rank
        self.container_slot_counts = container_slot_counts


class ClusterInfo:
    def __init__(self, master_url, cluster_id, agent_id, slot_ids, task_id, allocation_id, session_token, task_type,
                 master_cert_name=None, master_cert_file=None, latest_checkpoint=None):
        self.master_url, self.cluster_id, self.agent_id, self.slot_ids = master_url, cluster_id, agent_id, slot_ids
        self.task_id, self.allocation_id, self.task_type = task_id, allocation_id, task_type
        self.session_token = session_token
        self.master_cert_name, self.master_cert_file = master_cert_name, master_cert_file
        self.latest_checkpoint = latest_checkpoint if task_type == "TRIAL" else None
        trial, rendezvous, resources = (read(name) for name in ("trial", "rendezvous", "resources"))
        self.trial = TrialInfo(**trial) if trial else None
        self._rendezvous = RendezvousInfo(**rendezvous) if rendezvous else None
        self.gpu_uuids = resources["gpu_uuids"]

    def _rendezvous_of_trial(self):
        if self.task_type != "TRIAL":
            return RendezvousInfo(["127.0.0.1"], 0, [len(self.slot_ids)])
        assert self._rendezvous is not None, "there is no rendezvous.json"
        return self._rendezvous

    @property
    def container_addrs(self):
        return self._rendezvous_of_trial().container_addrs

    @property
    def container_rank(self):
        return self._rendezvous_of_trial().container_rank

    @property
    def container_slot_counts(self):
        return self._rendezvous_of_trial().container_slot_counts

    @property
    def user_data(self):
        return self.trial._config.get("data", {}) if self.trial else {}


def get_cluster_info():
    """Returns None outside a task."""
    cluster = read("cluster")
    return ClusterInfo(**cluster) if cluster else None
