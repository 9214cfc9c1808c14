// The table of an experiment's keys. Determined's keys keep their names and defaults
// (docs/wire.md); keys that only concern Docker, Kubernetes or Slurm are accepted and kept.
#include "api/config/expconf.h"
#include "api/config/expconf_parts.h"
#include "api/config/expconf_rows.h"

#include "base/limits.h"

static const struct schema_field a_string = {.name = "text", .type = SCHEMA_STRING};
static const struct schema_field an_integer = {.name = "number", .type = SCHEMA_INT};
static const struct schema_field anything = {.name = "value", .type = SCHEMA_ANY};

static const struct schema_field string_or_list[] = {
    {.name = "text", .type = SCHEMA_STRING},
    {.name = "list", .type = SCHEMA_LIST, .element = &a_string},
    END,
};
static const struct schema_field string_or_map[] = {
    {.name = "text", .type = SCHEMA_STRING},
    {.name = "map", .type = SCHEMA_MAP},
    END,
};
static const struct schema_field list_or_map[] = {
    {.name = "list", .type = SCHEMA_LIST, .element = &a_string},
    {.name = "map", .type = SCHEMA_MAP},
    END,
};
static const struct schema_field int_or_string[] = {
    {.name = "number", .type = SCHEMA_INT, .min = 0, .max = BIG},
    {.name = "text", .type = SCHEMA_STRING},
    END,
};
static const struct schema_field int_or_map[] = {
    {.name = "number", .type = SCHEMA_INT, .min = 1, .max = BIG},
    {.name = "map", .type = SCHEMA_MAP},
    END,
};

// --- searcher ------------------------------------------------------------------------------------

#define SEARCHER_COMMON                                                                            \
    STRING_REQUIRED("metric", "validation metric that ranks trials and checkpoints"),              \
        BOOL("smaller_is_better", "true", "whether a smaller metric is better"),                   \
        INT_OR_NULL("source_trial_id", 1, BIG, "trial whose latest checkpoint to start from"),     \
        INT_OR_NULL(                                                                               \
            "source_experiment_id", 1, BIG,                                                        \
            "experiment from whose best checkpoint to start, by that experiment's own metric"),    \
        STRING_OR_NULL("source_checkpoint_uuid", "checkpoint to start from"),                      \
        ONE_OF("max_length", int_or_map, "null",                                                   \
               "length of training, for older programs (the native trainer uses `steps`)")

#define MAX_TRIALS INT_REQUIRED("max_trials", 1, 1e6, "number of trials")
#define CONCURRENT INT("max_concurrent_trials", 0, 1e6, "16", "trials running at a time; 0: all")
#define CONCURRENT_RUNGS                                                                           \
    INT("max_concurrent_trials", 0, 1e6, "16",                                                     \
        "trials running at a time; 0: divisor to the power of (rungs - 1), the number that one "   \
        "trial in the top rung needs")
#define RUNG_UNITS                                                                                 \
    STRING_OR_NULL(                                                                                \
        "time_metric",                                                                             \
        "metric that counts training time, reported with each validation; null: steps completed"), \
        INT_OR_NULL(                                                                               \
            "max_time", 1, BIG,                                                                    \
            "training time of the top rung, in units of time_metric; the next lower rung needs "   \
            "1/divisor of it. null: max_length"),                                                  \
        BOOL("stop_once", "false",                                                                 \
             "accepted for older files; trials are always stopped, never promoted")
#define DIVISOR NUMBER("divisor", 1.000001, 1e6, "4", "a rung keeps 1/divisor of its trials")

static const struct schema_field single_fields[] = {SEARCHER_COMMON, END};
static const struct schema_field random_fields[] = {SEARCHER_COMMON, MAX_TRIALS, CONCURRENT, END};
static const struct schema_field grid_fields[] = {SEARCHER_COMMON, CONCURRENT, END};
static const struct schema_field async_halving_fields[] = {
    SEARCHER_COMMON,
    INT_REQUIRED("num_rungs", 1, 100, "number of rungs"),
    MAX_TRIALS,
    DIVISOR,
    CONCURRENT_RUNGS,
    RUNG_UNITS,
    END,
};
static const char *const asha_modes[] = {"aggressive", "standard", "conservative", NULL};
static const struct schema_field adaptive_asha_fields[] = {
    SEARCHER_COMMON,
    MAX_TRIALS,
    WORD("mode", asha_modes, "\"standard\"", "how early weak trials are stopped"),
    DIVISOR,
    INT("max_rungs", 1, 100, "5", "largest number of rungs of a bracket"),
    CONCURRENT_RUNGS,
    LIST("bracket_rungs", &an_integer, "[]", "rungs of each bracket; empty: chosen by mode"),
    RUNG_UNITS,
    END,
};
static const struct schema_field hyperband_fields[] = {
    SEARCHER_COMMON,
    NUMBER("divisor", 1.000001, 1e6, "3",
           "a rung promotes 1/divisor of its trials, and the next rung needs divisor times the "
           "training time (eta of the paper)"),
    INT("max_rungs", 1, 100, "5",
        "largest number of brackets, and of rungs of a bracket; it sets the lowest rung, which "
        "needs max_time / divisor^(max_rungs - 1)"),
    INT("max_concurrent_trials", 0, 1e6, "16",
        "trials running at a time in all brackets together; 0: all"),
    RUNG_UNITS,
    END,
};
static const struct schema_field tpe_fields[] = {
    SEARCHER_COMMON,
    INT_REQUIRED("max_trials", 1, LIMIT_TPE_TRIALS, "number of trials"),
    INT("max_concurrent_trials", 0, 1e6, "4",
        "trials running at a time; 0: all. The fewer run at a time, the more each learns from the "
        "others"),
    INT("startup_trials", 1, 1e6, "10",
        "number of results that are needed before points are chosen by the model, not at random"),
    INT("candidates", 1, 1000, "24", "values from which the best is chosen, per hyperparameter"),
    NUMBER("gamma", 0.001, 0.999, "0.15", "fraction of the trials that counts as good, at most 25"),
    END,
};
static const struct schema_field pbt_replace[] = {
    NUMBER("truncate_fraction", 0, 0.5, "0.2",
           "a member among this fraction of worst members is replaced by a copy of one among the "
           "same fraction of best members; of a small population at least one, unless it is 0"),
    END,
};
static const struct schema_field pbt_explore[] = {
    NUMBER("resample_probability", 0, 1, "0.25",
           "probability that a copy draws a hyperparameter anew from its range"),
    NUMBER("perturb_factor", 0, 1, "0.2",
           "otherwise it makes a number larger or smaller by this fraction of it"),
    END,
};
static const struct schema_field pbt_fields[] = {
    SEARCHER_COMMON,
    INT_REQUIRED("population_size", 1, LIMIT_PBT_MEMBERS, "number of members that train"),
    INT_REQUIRED("num_rounds", 1, LIMIT_PBT_ROUNDS, "number of rounds of a complete training"),
    ONE_OF("length_per_round", int_or_map, "null",
           "length of a round: {batches: N}, {epochs: N} or a number of units of time_metric. "
           "Programs should validate and save a checkpoint at the end of each round"),
    STRING_OR_NULL("time_metric", "metric that counts training time, reported with each "
                                  "validation; null: the unit of length_per_round, else steps"),
    OBJECT("replace_function", pbt_replace, "{}", "which members are replaced"),
    OBJECT("explore_function", pbt_explore, "{}", "how a copy changes its hyperparameters"),
    INT("max_concurrent_trials", 0, 1e6, "0",
        "members running at a time; 0: all, so that each can be compared with all others"),
    END,
};
static const struct schema_variant searchers[] = {
    {"single", single_fields, "one trial; a hyperparameter that is a range is drawn by the seed"},
    {"random", random_fields, "trials with hyperparameters drawn at random"},
    {"grid", grid_fields, "every combination of the hyperparameters' values"},
    {"async_halving", async_halving_fields, "random trials; weak ones are stopped at rungs (ASHA)"},
    {"adaptive_asha", adaptive_asha_fields, "several brackets of ASHA"},
    {"hyperband", hyperband_fields,
     "random trials in brackets; the best of a rung continue when all have reached it (Li et al.)"},
    {"tpe", tpe_fields, "trials near the good ones of before, by a model (Bergstra et al.)"},
    {"pbt", pbt_fields,
     "population based training: members copy the checkpoints of better ones (Jaderberg et al.)"},
    {"custom", single_fields, "trials created by other programs; for unmanaged experiments"},
    {NULL, NULL, NULL},
};

// --- resources, storage, environment -------------------------------------------------------------

static const struct schema_field resources[] = {
    INT("slots_per_trial", 0, BIG, "1", "slots that train one trial together, at most 8192"),
    INT_OR_NULL("min_slots", 1, BIG,
                "elastic: a trial can run on this number of slots and gets up to slots_per_trial "
                "when they are free; null: exactly slots_per_trial"),
    INT_OR_NULL("priority", 1, 99,
                "priority in the queue, a smaller number goes first; null: the pool's default. "
                "Users may set the pool's max_user_priority (42 unless the master is configured "
                "otherwise) or a larger number"),
    NUMBER("weight", 0, 1e6, "1", "share of the cluster under fair share"),
    STRING("resource_pool", "\"default\"", "pool to run in"),
    INT_OR_NULL("max_slots", 0, BIG, "largest number of slots of the whole experiment at a time"),
    {.name = "is_single_node",
     .type = SCHEMA_BOOL,
     .nullable = true,
     .fallback = "null",
     .doc =
         "whether all slots of a trial must be on one machine; otherwise they may be on several"},
    ONE_OF("shm_size", int_or_string, "null", "accepted for older files; processes share /dev/shm"),
    LIST("devices", &anything, "[]", "accepted for older files; programs see the host's devices"),
    BOOL("native_parallel", "false", "accepted for older files"),
    STRING_OR_NULL("agent_label", "accepted for older files"),
    INT_OR_NULL("slots", 0, LIMIT_SLOTS_PER_TRIAL,
                "accepted for older files; the slots of a trial are slots_per_trial"),
    END,
};

static const char *const storage_types[] = {"directory", "shared_fs", "s3", "gcs", "azure", NULL};

const struct schema_field expconf_storage_keys[] = {
    {.name = "type",
     .type = SCHEMA_ENUM,
     .words = storage_types,
     .doc = "kind of storage for checkpoints; absent: the master's default. The trainer and the "
            "package muster write to directory and shared_fs; the others are only for programs "
            "that write there themselves, and the master cannot read such checkpoints"},
    STRING("container_path", NULL, "absolute folder that the administrator allows (directory)"),
    STRING("host_path", NULL,
           "absolute folder that every machine has and the administrator allows (shared_fs)"),
    {.name = "storage_path",
     .type = SCHEMA_STRING,
     .nullable = true,
     .doc = "folder below host_path (shared_fs)"},
    STRING("propagation", NULL, "accepted for older files"),
    STRING("bucket", NULL, "bucket (s3, gcs)"),
    {.name = "prefix", .type = SCHEMA_STRING, .nullable = true, .doc = "prefix of names (s3, gcs)"},
    {.name = "access_key", .type = SCHEMA_STRING, .nullable = true, .doc = "key id (s3)"},
    {.name = "secret_key", .type = SCHEMA_STRING, .nullable = true, .doc = "secret (s3)"},
    {.name = "endpoint_url", .type = SCHEMA_STRING, .nullable = true, .doc = "server (s3)"},
    STRING("container", NULL, "container (azure)"),
    {.name = "connection_string", .type = SCHEMA_STRING, .nullable = true, .doc = "azure"},
    {.name = "account_url", .type = SCHEMA_STRING, .nullable = true, .doc = "azure"},
    {.name = "credential", .type = SCHEMA_STRING, .nullable = true, .doc = "azure"},
    STRING("checkpoint_path", NULL, "accepted for older files"),
    STRING("tensorboard_path", NULL, "accepted for older files"),
    INT("save_experiment_best", 0, 1e6, NULL,
        "number of best checkpoints of the experiment that are kept; default: the master's, else "
        "0"),
    INT("save_trial_best", 0, 1e6, NULL,
        "number of best checkpoints of each trial that are kept; default: the master's, else 1"),
    INT("save_trial_latest", 0, 1e6, NULL,
        "number of latest checkpoints of each trial that are kept; default: the master's, else 1"),
    END,
};

static const struct schema_field environment[] = {
    ONE_OF("environment_variables", list_or_map, "[]",
           "list of NAME=VALUE, or a list for each of cpu, cuda, rocm"),
    ONE_OF("image", string_or_map, "null",
           "accepted for older files; programs run as processes, not in containers"),
    LIST("proxy_ports", &anything, "[]", "accepted for older files"),
    MAP("ports", &an_integer, "{}", "accepted for older files"),
    ANYTHING("registry_auth", "null", "accepted for older files"),
    ANYTHING("pod_spec", "null", "accepted for older files"),
    LIST("add_capabilities", &a_string, "[]", "accepted for older files"),
    LIST("drop_capabilities", &a_string, "[]", "accepted for older files"),
    BOOL("force_pull_image", "false", "accepted for older files"),
    END,
};

static const struct schema_field log_policy[] = {
    STRING_OR_NULL("name", "name shown when the pattern matches"),
    STRING_OR_NULL("pattern",
                   "regular expression over the lines of the log: RE2, the syntax of Go's regexp "
                   "(no look-around, no back-references, counts to 1000)"),
    ONE_OF("action", string_or_map, "null",
           "cancel_retries: after an error the program is not restarted; exclude_node: the trial "
           "is not placed on that machine again"),
    STRING_OR_NULL("signal", "accepted for older files"),
    END,
};
static const struct schema_field log_policy_element = {
    .name = "policy", .type = SCHEMA_OBJECT, .fields = log_policy};

static const struct schema_field profiling[] = {
    BOOL("enabled", "false", "whether to record the load of the machine"),
    INT("begin_on_batch", 0, BIG, "0", "first batch recorded"),
    INT_OR_NULL("end_after_batch", 0, BIG, "last batch recorded"),
    BOOL("sync_timings", "true", "whether to wait for the device at each timing"),
    END,
};
static const struct schema_field reproducibility[] = {
    INT("experiment_seed", 0, BIG, NULL, "seed of all random numbers; random if absent"),
    END,
};
static const struct schema_field retention[] = {
    INT_OR_NULL("log_retention_days", -1, 32767, "days that logs are kept; -1: forever"),
    END,
};

static const struct schema_field hang[] = {
    INT("warn_after", 1, 1e9, "300",
        "seconds until the log warns, with what each rank waits for; a tenth of it if a rank has "
        "ended with exit 0 while others run"),
    INT_OR_NULL("kill_after", 1, 1e9,
                "seconds until the trial is ended as failed, and started again if max_restarts "
                "permits; null: it is not ended"),
    END,
};

static const char *const propagations[] = {"rprivate", "private", "rslave", "slave",
                                           "rshared",  "shared",  NULL};

static const struct schema_field bind_mount[] = {
    STRING_REQUIRED("host_path", "absolute path on the machine"),
    STRING_REQUIRED("container_path",
                    "path for the program; below its working folder if it is not absolute"),
    BOOL("read_only", "false", "whether the program may only read there"),
    WORD("propagation", propagations, "\"rprivate\"",
         "whether later mounts of the machine below host_path appear there, too: slave; "
         "shared counts as slave"),
    END,
};
const struct schema_field expconf_bind_mount = {
    .name = "mount", .type = SCHEMA_OBJECT, .fields = bind_mount};

// --- complete validation -------------------------------------------------------------------------

static const char *const launches[] = {"per_machine", "per_slot", NULL};
static const char *const checkpoint_policies[] = {"best", "all", "none", NULL};

const struct schema_field expconf_fields[] = {
    STRING("name", "\"unnamed experiment\"", "name shown in lists"),
    STRING_OR_NULL("description", "free text"),
    LIST("labels", &a_string, "[]", "labels for finding the experiment"),
    STRING("workspace", "\"\"", "workspace of the experiment"),
    STRING("project", "\"\"", "project of the experiment"),
    ONE_OF("entrypoint", string_or_list, "null", "program to run: a shell line or a list of words"),
    OBJECT("trainer", expconf_trainer_keys, NULL, "the native trainer, used instead of entrypoint"),
    WORD(
        "launch", launches, NULL,
        "processes of the entrypoint: per_machine (default) or per_slot; of the trainer: per_slot"),
    MAP("hyperparameters", NULL, "{}",
        "constant values, or ranges to search: {type: double or int, minval, maxval}, {type: log, "
        "minval, "
        "maxval} (exponents of base 10), {type: categorical, vals: [..]}; with count for a grid. "
        "\"${NAME}\" in the trainer section is replaced by the hyperparameter NAME"),
    UNION("searcher", "name", searchers, "the search: which trials to run"),
    OBJECT("resources", resources, "{}", "slots and other resources of a trial"),
    INT("max_restarts", 0, 1e6, "5", "number of restarts of a trial after errors of its program"),
    WORD("checkpoint_policy", checkpoint_policies, "\"best\"", "when a program writes checkpoints"),
    OBJECT("checkpoint_storage", expconf_storage_keys, "{}",
           "storage of checkpoints, and which ones are kept"),
    OBJECT("reproducibility", reproducibility, "{}", "seeds"),
    OBJECT("environment", environment, "{}", "environment of programs"),
    LIST("log_policies", &log_policy_element, "[]",
         "actions when a line of the log matches a pattern"),
    OBJECT("profiling", profiling, "{}", "records of the machine's load"),
    INT_OR_NULL(
        "preemption_timeout", 1, 1e9,
        "seconds that a trial has to save its work after it was asked to leave; then it gets "
        "SIGTERM, and SIGKILL 10 s later. A program that never polls for preemption gets "
        "SIGTERM at once. null: the value of the pool or the master, which is 600 by default"),
    {.name = "hang",
     .type = SCHEMA_OBJECT,
     .fields = hang,
     .doc = "limits for trials that print and report nothing and use almost no processor time"},
    OBJECT("retention_policy", retention, "{}", "retention of logs"),
    MAP("data", NULL, "{}", "any values for the program"),
    BOOL("debug", "false", "whether programs log more"),
    BOOL("perform_initial_validation", "false", "whether programs validate before training"),
    ANYTHING("min_validation_period", "{\"batches\":0}", "accepted for older files"),
    ANYTHING("min_checkpoint_period", "{\"batches\":0}", "accepted for older files"),
    INT("scheduling_unit", 1, BIG, "100", "accepted for older files"),
    INT("records_per_epoch", 0, BIG, "0", "accepted for older files"),
    {.name = "bind_mounts",
     .type = SCHEMA_LIST,
     .element = &expconf_bind_mount,
     .nullable = true,
     .fallback = "[]",
     .doc = "folders of the machine that the program sees under other names, where agents can "
            "mount"},
    ANYTHING("optimizations", "{}", "accepted for older files"),
    ANYTHING("slurm", "{}", "accepted for older files"),
    ANYTHING("pbs", "{}", "accepted for older files"),
    ANYTHING("integrations", "null", "accepted for older files"),
    ANYTHING("security", "null", "accepted for older files"),
    ANYTHING("data_layer", NULL, "accepted for older files"),
    ANYTHING("internal", NULL, "accepted for older files"),
    ANYTHING("tensorboard_storage", NULL, "accepted for older files"),
    ANYTHING("log_pattern_policies", NULL, "accepted for older files"),
    END,
};

// --- hyperparameters -----------------------------------------------------------------------------

static const struct schema_field const_fields[] = {
    STRING_REQUIRED("type", "const"),
    {.name = "val", .type = SCHEMA_ANY, .nullable = true, .doc = "the value"},
    END,
};
#define COUNT INT_OR_NULL("count", 1, 1e6, "number of values in a grid")
static const struct schema_field int_fields[] = {
    STRING_REQUIRED("type", "int"),
    INT_REQUIRED("minval", -BIG, BIG, "smallest value"),
    INT_REQUIRED("maxval", -BIG, BIG, "largest value"),
    COUNT,
    END,
};
static const struct schema_field double_fields[] = {
    STRING_REQUIRED("type", "double"),
    NUMBER_REQUIRED("minval", -1e300, 1e300, "smallest value"),
    NUMBER_REQUIRED("maxval", -1e300, 1e300, "largest value"),
    COUNT,
    END,
};
static const struct schema_field log_fields[] = {
    STRING_REQUIRED("type", "log"),
    NUMBER_REQUIRED("minval", -300, 300, "smallest exponent"),
    NUMBER_REQUIRED("maxval", -300, 300, "largest exponent"),
    NUMBER("base", 1e-300, 1e300, "10", "base of the exponents"),
    COUNT,
    END,
};
static const struct schema_field categorical_fields[] = {
    STRING_REQUIRED("type", "categorical"),
    {.name = "vals",
     .type = SCHEMA_LIST,
     .element = &anything,
     .required = true,
     .doc = "the values to choose from"},
    END,
};

const struct schema_variant expconf_hyperparameter_types[] = {
    {"const", const_fields, "one value"},
    {"int", int_fields, "an integer between minval and maxval"},
    {"double", double_fields, "a number between minval and maxval"},
    {"log", log_fields, "a power of base with an exponent between minval and maxval"},
    {"categorical", categorical_fields, "one value of a list"},
    {NULL, NULL, NULL},
};
