#include "master/kernel/states.h"

#include <string.h>

static const char *const experiment_words[EXPERIMENT_STATES] = {
    "ACTIVE",          "PAUSED",         "STOPPING_COMPLETED", "STOPPING_CANCELED",
    "STOPPING_KILLED", "STOPPING_ERROR", "COMPLETED",          "CANCELED",
    "ERROR",           "DELETING",       "DELETE_FAILED"};
static const char *const trial_words[TRIAL_STATES] = {"ACTIVE",
                                                      "PAUSED",
                                                      "STOPPING_COMPLETED",
                                                      "STOPPING_CANCELED",
                                                      "STOPPING_KILLED",
                                                      "STOPPING_ERROR",
                                                      "COMPLETED",
                                                      "CANCELED",
                                                      "ERROR"};
static const char *const allocation_words[ALLOCATION_STATES] = {
    "QUEUED", "ASSIGNED", "STARTING", "RUNNING", "TERMINATING", "TERMINATED"};

const char *experiment_state_word(enum experiment_state s)
{
    return experiment_words[s];
}

const char *trial_state_word(enum trial_state s)
{
    return trial_words[s];
}

const char *allocation_state_word(enum allocation_state s)
{
    return allocation_words[s];
}

static bool word_find(const char *const *words, int count, const char *word, int *out)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], word)) {
            *out = i;
            return true;
        }
    return false;
}

// RUNNING is the word of an active unmanaged experiment.
bool experiment_state_of(const char *word, enum experiment_state *out)
{
    int i = EXPERIMENT_ACTIVE;
    bool found =
        !strcmp(word, "RUNNING") || word_find(experiment_words, EXPERIMENT_STATES, word, &i);
    *out = (enum experiment_state)i;
    return found;
}

bool trial_state_of(const char *word, enum trial_state *out)
{
    int i = TRIAL_ACTIVE;
    bool found = !strcmp(word, "RUNNING") || word_find(trial_words, TRIAL_STATES, word, &i);
    *out = (enum trial_state)i;
    return found;
}

bool allocation_state_of(const char *word, enum allocation_state *out)
{
    int i = 0;
    bool found = word_find(allocation_words, ALLOCATION_STATES, word, &i);
    *out = (enum allocation_state)i;
    return found;
}
