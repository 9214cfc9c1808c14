// Every limit of the product in one place. Each is tested at the limit and one past it where it
// guards input from outside.
#ifndef MUSTER_BASE_LIMITS_H
#define MUSTER_BASE_LIMITS_H

enum {
    LIMIT_NAME = 255,                  // bytes of a name (experiment, user, agent, label)
    LIMIT_DESCRIPTION = 16 * 1024,     // bytes
    LIMIT_CONFIG = 1 << 20,            // bytes of an experiment's YAML
    LIMIT_CONFIG_COMPLETE = 120 << 10, // .. as JSON with its defaults: Linux takes 128 KiB for a
                                       // task's environment variable
    LIMIT_NOTES = 100,                 // of a project
    LIMIT_MODEL_DEFINITION = 96 << 20, // bytes of an experiment's files, decoded
    LIMIT_BODY = 144 << 20,            // bytes of any request body
    LIMIT_BODY_SMALL = 8 << 20,        // .. that carries reports, lists of files, configurations
    LIMIT_BODY_CALL = 256 * 1024,      // .. of any other call
    LIMIT_BODY_LOGIN = 4096,           // .. of a call that anybody may make
    LIMIT_BODIES = 128 << 20,          // all large bodies together, raw and parsed
    LIMIT_JSON_STRINGS = 32 << 20,     // bytes of strings in one body, beside contents of files
    LIMIT_JSON_TREE = 48 << 20,        // bytes that the values of one body may take
    LIMIT_YAML_VALUES = 100000,        // values in one document
    LIMIT_JSON_DEPTH = 32,             // levels of request bodies and configurations
    LIMIT_ANSWER_DEPTH = 64,           // .. of any JSON that is read: answers wrap what was taken
    LIMIT_ANSWER = 144 << 20,  // bytes of one answer: a model definition at its limit, as base64
    LIMIT_ANSWERS = 192 << 20, // .. of all that are not sent yet
    LIMIT_ANSWERS_USER = 24 << 20, // .. of one user, unless it is a single answer
    LIMIT_SLOTS_PER_AGENT = 1024,
    LIMIT_SLOTS_PER_TRIAL = 8192,
    LIMIT_CONCURRENT_TRIALS = 1000, // of a search
    LIMIT_GRID = 100000,            // trials of a grid
    LIMIT_AGENTS = 4096,
    LIMIT_LOG_LINE = 64 * 1024, // bytes; longer lines are cut and say so
    LIMIT_LOGS_PER_POST = 10000,
    LIMIT_PATTERN = 1024,            // bytes of a regular expression
    LIMIT_PATTERN_PROGRAM = 1000,    // its instructions: a byte of text costs at most so many steps
    LIMIT_PATTERN_TEXT = 128 * 1024, // bytes of a line that a pattern is matched with
    LIMIT_PATTERNS_KEPT = 32,        // compiled patterns that each cache keeps, 0.5 MB each at most
    LIMIT_LOG_POLICIES = 16,         // log policies of an experiment
    LIMIT_MATCH_POST_MS = 500,       // CPU time for all patterns over the lines of one post
    LIMIT_LOG_CHUNKS_OPEN = 64,      // unpacked log chunks that wait for slow readers
    LIMIT_LOG_SEARCHES = 256,        // open at once
    LIMIT_LOG_SEARCH_S = 30,         // CPU seconds that one log search may use
    LIMIT_METRICS_PER_POST = 10000,  // names in one report
    LIMIT_METRIC_NAME = 1024,        // bytes
    LIMIT_STEPS_PER_POST = 65536,    // of a columnar post
    LIMIT_POINTS_PER_POST = 1 << 20, // .. and steps times metrics
    LIMIT_METRIC_NAMES = 10000,      // of a trial that its summary keeps
    LIMIT_RENDEZVOUS_VALUE = 64 * 1024, // bytes one rank publishes
    LIMIT_CONNECTIONS = 8192,           // open HTTP connections, when --connections is not given
    LIMIT_CORE_QUEUE = 16384,           // messages waiting for the core thread; then 429
    LIMIT_WRITER_QUEUE = 16384,         // batches waiting for the store
    LIMIT_PAGE = 1000,                  // rows of a list answer when the caller names no limit
    LIMIT_LONG_POLL_S = 25,             // seconds a long-poll may stay parked
    LIMIT_TOKEN_DAYS = 30,              // life of a login token
    LIMIT_SESSIONS = 1000,              // logins of a user; the oldest ends
    LIMIT_ACCESS_TOKENS = 100,          // of a user, that work
    LIMIT_SETTINGS = 1000,              // of the web page, of a user
    LIMIT_CHECKPOINT_FILES = 100000,
    LIMIT_FOLDER_ENTRIES = 100000,     // names in one folder that is walked
    LIMIT_CHECKPOINTS_PER_CALL = 1000, // deleted, thinned out or patched in one call
    LIMIT_GLOBS_PER_CALL = 64,
    LIMIT_STREAMS = 512,            // open answers without a known end: logs, events, downloads
    LIMIT_STREAMS_USER = 192,       // .. of one user
    LIMIT_EVENT_STREAMS = 512,      // followers of events
    LIMIT_EVENT_STREAMS_USER = 64,  // .. of one user
    LIMIT_EVENTS_KEPT = 16384,      // for those who resume
    LIMIT_EVENT_BYTES = 8 << 20,    // .. together
    LIMIT_DOWNLOADS = 64,           // of checkpoints, at once
    LIMIT_DOWNLOADS_USER = 8,       // .. of one user
    LIMIT_LABELS = 100,             // of an experiment
    LIMIT_BULK = 10000,             // experiments changed in one call
    LIMIT_TASK_DEPTH = 32,          // generic tasks below each other
    LIMIT_SILENCE_S = 300,          // an unmanaged trial that is not heard for so long has failed
    LIMIT_LOST_AGENT_H = 72,        // hours for which one that was given up is shown: a weekend
    LIMIT_UNMANAGED_TRIALS = 10000, // of an experiment
    LIMIT_FILE_SHOWN = 8 << 20,     // bytes of a file of an experiment that is sent by itself
    LIMIT_METADATA_KEYS = 1000,     // of a run: as Determined has them, and the next four
    LIMIT_METADATA_KEY = 50,        // bytes
    LIMIT_METADATA_TEXT = 5000,     // bytes of a value
    LIMIT_METADATA_LIST = 100,      // elements
    LIMIT_METADATA_DEPTH = 10,
    LIMIT_LAYERS = 10000,        // of a model
    LIMIT_LAYER_NAME = 79,       // bytes, with the blocks it lies in
    LIMIT_BLOCKS = 800,          // of a transformer; at most 12 layers each
    LIMIT_WIDTH = 65536,         // features, channels, classes, tokens of a vocabulary or context
    LIMIT_HEADS = 1024,          // of an attention
    LIMIT_KERNEL = 1024,         // height and width of a convolution's or a pool's window
    LIMIT_MICRO_BATCHES = 65536, // V, micro-batches per optimizer step
    LIMIT_MILESTONES = 64,       // steps at which a learning rate falls
};

#endif
