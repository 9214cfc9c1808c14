// All limits of the product. A limit on untrusted input is tested at the limit and one past it.
#ifndef MUSTER_BASE_LIMITS_H
#define MUSTER_BASE_LIMITS_H

enum {
    LIMIT_PROJECT_KEY = 5,             // characters of a key of a project, as in Determined
    LIMIT_NAME = 255,                  // bytes of a name (experiment, user, agent, label)
    LIMIT_DESCRIPTION = 16 * 1024,     // bytes
    LIMIT_CONFIG = 1 << 20,            // bytes of an experiment's YAML
    LIMIT_CONFIG_COMPLETE = 120 << 10, // bytes of it as JSON with its defaults: a task's
                                       // environment variable, of which Linux allows 128 KiB
    LIMIT_PROJECT_NOTES = 100,         // notes of a project
    LIMIT_MODEL_DEFINITION = 96 << 20, // bytes of an experiment's files, decoded
    LIMIT_BODY = 144 << 20,            // bytes of any request body
    LIMIT_BODY_SMALL = 8 << 20,    // bytes of a body with reports, lists of files or configurations
    LIMIT_BODY_CALL = 256 * 1024,  // bytes of the body of any other call
    LIMIT_BODY_LOGIN = 4096,       // bytes of the body of a call that needs no token
    LIMIT_BODIES = 128 << 20,      // bytes of all large bodies together, raw and parsed
    LIMIT_JSON_STRINGS = 32 << 20, // bytes of strings in one body, without the contents of files
    LIMIT_JSON_TREE = 48 << 20,    // bytes of memory that the values of one body may take
    LIMIT_YAML_VALUES = 100000,    // values in one document
    LIMIT_JSON_DEPTH = 32,         // nesting of request bodies and configurations
    LIMIT_RESPONSE_DEPTH = 64,     // nesting of all other JSON: a response wraps stored values
    LIMIT_RESPONSE = 144 << 20,    // bytes of one response: the largest model definition, as base64
    LIMIT_RESPONSES = 192 << 20,   // bytes of all responses that are not sent yet
    LIMIT_RESPONSES_USER = 24 << 20, // the same of one user; a single response may be larger
    LIMIT_SLOTS_PER_AGENT = 1024,
    LIMIT_SLOTS_PER_TRIAL = 8192,
    LIMIT_CONCURRENT_TRIALS = 1000, // of a search
    LIMIT_GRID_TRIALS = 100000,     // of a grid search
    LIMIT_PREVIEW_TRIALS = 1000,    // that a preview of a search shows
    LIMIT_HYPERBAND_TRIALS = 10000, // of a search by hyperband
    LIMIT_TPE_TRIALS = 2000,        // of a search by tpe: each new point looks at all earlier ones
    LIMIT_PBT_MEMBERS = 1000,       // the population of a search by pbt
    LIMIT_PBT_ROUNDS = 1000,        // .. and its rounds
    LIMIT_PBT_SCORES = 20000,       // members times rounds: all scores are saved with the search
    LIMIT_AGENTS = 4096,
    LIMIT_TASK_UID_MIN = 1000,      // smallest uid and gid of tasks; Debian keeps the lower ones
    LIMIT_TASK_GID_USERS = 100,     // .. but for its group `users`
    LIMIT_TASK_FOLDER_DEPTH = 200,  // levels of folders in the files of a task
    LIMIT_TASK_PROCESSES = 4194304, // of --task-processes: the kernel's greatest pid
    LIMIT_ENROLMENTS = 1000,        // enrolments of agents that may still be used
    LIMIT_ENROLMENT_DAYS = 30,      // the longest lifetime of one
    LIMIT_ENROLMENT_USES = 4096,    // machines that one may enrol
    LIMIT_LOG_LINE = 64 * 1024,     // bytes; longer lines are cut and marked
    LIMIT_LOGS_PER_POST = 10000,
    LIMIT_PATTERN = 1024,               // bytes of a regular expression
    LIMIT_PATTERN_PROGRAM = 1000,       // its instructions: the maximum of steps for a byte of text
    LIMIT_PATTERN_TEXT = 128 * 1024,    // bytes of a line that take part in a match
    LIMIT_PATTERNS_CACHED = 32,         // compiled patterns in a cache, at most 0.5 MB each
    LIMIT_LOG_POLICIES = 16,            // log policies of an experiment
    LIMIT_MATCH_POST_MS = 500,          // CPU time for all patterns over the lines of one post
    LIMIT_LOG_CHUNKS_OPEN = 64,         // unpacked log chunks for slow readers
    LIMIT_LOG_SEARCHES = 256,           // log searches at the same time
    LIMIT_LOG_SEARCH_S = 30,            // CPU seconds of one log search
    LIMIT_METRICS_PER_POST = 10000,     // names in one report
    LIMIT_METRIC_NAME = 1024,           // bytes
    LIMIT_STEPS_PER_POST = 65536,       // steps of a columnar post
    LIMIT_POINTS_PER_POST = 1 << 20,    // steps of a columnar post times its metrics
    LIMIT_METRIC_NAMES = 10000,         // names in the summary of a trial
    LIMIT_RENDEZVOUS_VALUE = 64 * 1024, // bytes that one rank publishes
    LIMIT_CONNECTIONS = 8192,           // open HTTP connections, when --connections is not given
    LIMIT_CORE_QUEUE = 16384,           // messages waiting for the core thread; then 429
    LIMIT_WRITER_QUEUE = 16384,         // batches waiting for the store
    LIMIT_PAGE = 1000,                  // rows of a list if the caller gives no limit
    LIMIT_LONG_POLL_S = 25,             // seconds that a long-poll may wait
    LIMIT_TOKEN_DAYS = 30,              // lifetime of a login token
    LIMIT_SESSIONS = 1000,              // logins of a user; a further login ends the oldest
    LIMIT_ACCESS_TOKENS = 100,          // valid tokens of a user
    LIMIT_SETTINGS = 1000,              // settings of the web page for a user
    LIMIT_CHECKPOINT_FILES = 100000,
    LIMIT_FOLDER_ENTRIES = 100000,     // names in one folder
    LIMIT_CHECKPOINTS_PER_CALL = 1000, // deleted, thinned out or patched in one call
    LIMIT_GLOBS_PER_CALL = 64,
    LIMIT_STREAMS = 512,           // open responses without a known length: logs, events, downloads
    LIMIT_STREAMS_USER = 192,      // open ones of one user
    LIMIT_EVENT_STREAMS = 512,     // followers of events
    LIMIT_EVENT_STREAMS_USER = 64, // followers of one user
    LIMIT_EVENTS_KEPT = 16384,     // events in memory, for followers that reconnect
    LIMIT_EVENT_BYTES = 8 << 20,   // bytes of these events together
    LIMIT_DOWNLOADS = 64,          // downloads of checkpoints at the same time
    LIMIT_DOWNLOADS_USER = 8,      // downloads of one user at the same time
    LIMIT_LABELS = 100,            // of an experiment
    LIMIT_BULK = 10000,            // experiments that one call changes
    LIMIT_TASK_DEPTH = 32,         // nested generic tasks
    LIMIT_UNMANAGED_SILENCE_S = 300, // without a report for so long, an unmanaged trial has failed
    LIMIT_LOST_AGENT_H = 72,         // hours for which lists show a lost agent: a weekend
    LIMIT_UNMANAGED_TRIALS = 10000,  // of an experiment
    LIMIT_MODEL_FILE = 8 << 20,      // bytes of one file of an experiment that is sent by itself
    LIMIT_MEDIA_ITEM = 16 << 20,     // bytes of an image, histogram, table or text
    LIMIT_MEDIA_ITEMS = 20000,       // of a trial
    LIMIT_MEDIA_NAME = 256,          // bytes
    LIMIT_MEDIA_PER_POST = 1000,     // items
    LIMIT_MEDIA_BYTES_PER_CALL = 64 << 20, // of contents in one call of an agent or an import
    LIMIT_MEDIA_DOWNLOADS = 64,            // contents of items that are sent at the same time
    LIMIT_MEDIA_DOWNLOADS_USER = 32, // to one user: a few pages, each with the six of a browser
    LIMIT_METADATA_VALUES = 1000,    // of a run; this and the next four are Determined's limits
    LIMIT_METADATA_KEY = 50,         // bytes
    LIMIT_METADATA_TEXT = 5000,      // bytes of a value
    LIMIT_METADATA_LIST = 100,       // elements
    LIMIT_METADATA_DEPTH = 10,
    LIMIT_LAYERS = 10000,        // of a model
    LIMIT_LAYER_NAME = 79,       // bytes, with the names of its blocks
    LIMIT_BLOCKS = 800,          // of a transformer; at most 12 layers each
    LIMIT_WIDTH = 65536,         // features, channels, classes, tokens of a vocabulary or context
    LIMIT_HEADS = 1024,          // of an attention layer
    LIMIT_KERNEL = 1024,         // height and width of the window of a convolution or pooling layer
    LIMIT_MICRO_BATCH = 1000000, // samples of a micro-batch
    LIMIT_MICRO_BATCHES = 65536, // micro-batches per optimizer step
    LIMIT_MILESTONES = 64,       // steps at which a learning rate drops
    LIMIT_REPORT_LINE = 1 << 20, // bytes of a line on the report socket of a task
    LIMIT_REPORT_CLIENTS = 256,  // open connections to it; more wait
    LIMIT_REPORT_MEMORY = 64 << 20, // bytes of lines without an end and of unread answers
    LIMIT_REPORT_IDLE_S = 10,       // an idle connection gives its place to one that waits
    LIMIT_REPORT_SPOOL = 256 << 20, // bytes of reports that are not sent yet; then programs wait
    LIMIT_EXIT_TEXT = 4096,         // bytes of a program's reason for its early exit
    LIMIT_MEDIA_PER_LINE = 1000,    // items in one report of media
};

// Steps, times and sizes that programs report: every JSON reader keeps such an integer exactly.
#define LIMIT_REPORTED_INTEGER (1LL << 53)

#endif
