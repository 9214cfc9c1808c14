#include "master/teams/project_keys.h"

#include <ctype.h>
#include <string.h>

#include "base/rng.h"
#include "base/text/json.h"

enum { OF_NAME = 3 }; // characters of a drawn key that come from the name

static bool is_plain(char letter)
{
    return isascii((unsigned char)letter) && isalnum((unsigned char)letter);
}

static const struct project *find_holder(const struct core *c, const char *key)
{
    for (size_t i = 0; i < c->projects.count; i++) {
        const struct project *p = c->projects.items[i].value;
        if (!strcmp(p->key, key))
            return p;
    }
    return NULL;
}

int project_key_read(const struct core *c, const json_t *body, const struct project *self,
                     struct project_key *out, struct error *e)
{
    const char *given = jget_string(body, "key", NULL);
    *out = (struct project_key){0};
    if (!given)
        return 0;
    size_t len = strlen(given);
    bool good = len && len <= LIMIT_PROJECT_KEY;
    for (size_t i = 0; good && i < len; i++) {
        good = is_plain(given[i]);
        out->text[i] = (char)toupper((unsigned char)given[i]);
    }
    if (!good)
        return error_set(e, ERR_INVALID,
                         "key: \"%.64s\" is not 1 to %d letters (A to Z) and digits", given,
                         LIMIT_PROJECT_KEY);
    const struct project *holder = find_holder(c, out->text);
    return !holder || holder == self
               ? 0
               : error_set(e, ERR_CONFLICT, "key: another project has the key %s; choose another",
                           out->text);
}

struct project_key project_key_make(const struct core *c, const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    struct project_key key = {0};
    size_t kept = 0;
    for (; *name && kept < OF_NAME; name++)
        if (is_plain(*name))
            key.text[kept++] = (char)toupper((unsigned char)*name);
    for (int tries = 0;
         !*key.text || strlen(key.text) < LIMIT_PROJECT_KEY || find_holder(c, key.text); tries++) {
        unsigned char drawn[LIMIT_PROJECT_KEY];
        rng_secret(drawn, sizeof drawn);
        if (tries >= 1000) // 1,296 projects may share the letters of a name
            kept = 0;
        for (size_t i = kept; i < LIMIT_PROJECT_KEY; i++)
            key.text[i] = letters[drawn[i] % (sizeof letters - 1)];
    }
    return key;
}
