"""A small database of Determined 0.38, for tests and benchmarks of `muster import determined`.

SCHEMA has the tables and columns that an import reads, as Determined's migrations leave them, and
some that it must ignore. `write_dump()` writes them as pg_dump does: commands that make the tables,
then rows in COPY blocks in the order of the tables' names.
"""

import hashlib
import json

SCHEMA = {
    "allocations": "allocation_id text, task_id text",
    "checkpoints_v2": "id integer, uuid uuid, task_id text, allocation_id text, report_time timestamp with time zone, "
                      "state text, resources jsonb, metadata jsonb, size bigint, storage_id integer",
    "cluster_id": "cluster_id text",
    "experiments": "id integer, state text, config jsonb, model_definition bytea, start_time timestamp without time zone, "
                   "end_time timestamp without time zone, archived boolean, parent_id integer, owner_id integer, "
                   "progress double precision, original_config text, notes text, job_id text, project_id integer, "
                   "best_trial_id integer, unmanaged boolean, external_experiment_id text",
    "generic_metrics": "trial_id integer, end_time timestamp with time zone, metrics jsonb, total_batches integer, "
                       "trial_run_id integer, archived boolean, id integer, partition_type text, metric_group text",
    "model_versions": "id integer, model_id integer, version integer, checkpoint_uuid uuid, "
                      "creation_time timestamp with time zone, last_updated_time timestamp with time zone, name text, "
                      "comment text, metadata jsonb, labels text[], notes text, user_id integer",
    "models": "id integer, name text, description text, creation_time timestamp with time zone, "
              "last_updated_time timestamp with time zone, metadata jsonb, labels text[], user_id integer, "
              "archived boolean, notes text, workspace_id integer",
    "projects": "id integer, name text, created_at timestamp with time zone, workspace_id integer, user_id integer, "
                "archived boolean, notes jsonb, description text, immutable boolean",
    "raw_steps": "trial_id integer, end_time timestamp with time zone, metrics jsonb, total_batches integer, "
                 "trial_run_id integer, archived boolean, id integer, metric_group text, partition_type text",
    "raw_validations": "trial_id integer, end_time timestamp with time zone, metrics jsonb, total_batches integer, "
                       "trial_run_id integer, archived boolean, id integer, metric_group text, partition_type text",
    "run_checkpoints": "run_id integer, checkpoint_id uuid",
    "run_id_task_id": "run_id integer, task_id text",
    "runs": "id integer, experiment_id integer, state text, start_time timestamp without time zone, "
            "end_time timestamp without time zone, hparams jsonb, warm_start_checkpoint_id integer, "
            "best_validation_id integer, runner_state text, restart_id integer, restarts integer, total_batches integer, "
            "external_run_id text, summary_metrics jsonb, searcher_metric_value double precision, "
            "latest_validation_id integer, project_id integer, local_id integer",
    "runs_metadata": "run_id integer, metadata jsonb",
    "storage_backend": "id integer, shared_fs_id integer, s3_id integer, gcs_id integer, azure_id integer, "
                       "directory_id integer",
    "storage_backend_directory": "id integer, container_path text",
    "storage_backend_shared_fs": "id integer, host_path text, container_path text, checkpoint_path text, "
                                 "tensorboard_path text, storage_path text, propagation text",
    "task_logs": "id bigint, task_id text, log bytea, level text",
    "trials_v2": "run_id integer, request_id text, seed integer",
    "users": "id integer, username text, password_hash text, display_name text, admin boolean, active boolean, "
             "modified_at timestamp with time zone, remote boolean",
    "workspaces": "id integer, name text, archived boolean, created_at timestamp with time zone, user_id integer, "
                  "immutable boolean, state text",
}
TIME = "2025-02-03 04:05:06.789+00"
END = "2025-02-03 05:05:06.789+00"
BARE_TIME, BARE_END = TIME.removesuffix("+00"), END.removesuffix("+00")
SALT = "GubPEmmotfiK9TMD6Zdw"


def columns_of(table):
    return [column.split()[0] for column in SCHEMA[table].split(", ")]


def copy_field(value):
    """One field in the text format of COPY."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return "\\\\x" + value.hex()
    if isinstance(value, (dict, list)):
        value = json.dumps(value)
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def sent_password(password):
    """What a client sends for a password: Determined hashes this once more, by bcrypt."""
    return hashlib.sha512((SALT + password).encode()).hexdigest()


class Database:
    def __init__(self, cluster="det-cluster-1"):
        self.rows = {table: [] for table in SCHEMA}
        self.add("cluster_id", cluster_id=cluster)

    def add(self, table, **values):
        unknown = set(values) - set(columns_of(table))
        assert not unknown, f"{table} has no {unknown}"
        self.rows[table].append([values.get(column) for column in columns_of(table)])

    def write_dump(self, path, complete=True):
        with open(path, "w", encoding="utf-8") as out:
            out.write("--\n-- PostgreSQL database dump\n--\n\nSET client_encoding = 'UTF8';\n\n")
            for table, columns in SCHEMA.items():
                out.write(f"CREATE TABLE public.{table} (\n    " + columns.replace(", ", ",\n    ") + "\n);\n\n")
            for table, rows in self.rows.items():
                out.write(f"COPY public.{table} ({', '.join(columns_of(table))}) FROM stdin;\n")
                out.writelines("\t".join(map(copy_field, row)) + "\n" for row in rows)
                out.write("\\.\n\n")
            if complete:
                out.write("--\n-- PostgreSQL database dump complete\n--\n\n")


def config_of(name, storage, **more):
    """A configuration as Determined stores it: complete."""
    return {
        "bind_mounts": [], "checkpoint_policy": "best",
        "checkpoint_storage": {"type": "directory", "container_path": str(storage), "save_experiment_best": 0,
                               "save_trial_best": 1, "save_trial_latest": 1},
        "data": {}, "debug": False, "description": "as described there", "entrypoint": "true",
        "hyperparameters": {"lr": {"type": "const", "val": 0.1}}, "labels": ["old", "paper"], "max_restarts": 5,
        "name": name, "reproducibility": {"experiment_seed": 7},
        "resources": {"slots_per_trial": 0, "priority": None, "resource_pool": "default", "weight": 1},
        "searcher": {"name": "single", "metric": "loss", "smaller_is_better": True}, **more,
    }


def summary_of(values):
    return {"min": min(values), "max": max(values), "sum": sum(values), "count": len(values), "last": values[-1],
            "type": "number"}
