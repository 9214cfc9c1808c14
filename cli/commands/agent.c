// Agents, slots, and the address of the master.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/enrolment.h"
#include "base/text/json.h"
#include "base/text/size.h"
#include "cli/commands/commands.h"
#include "cli/output/output.h"
#include "cli/output/rows.h"

int run_agent_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/agents?lost=true");
    if (!err) {
        json_t *rows = rows_of(jget(answer, "agents"), row_agent);
        err = output_rows(c, rows, self->columns, e);
        json_decref(rows);
    }
    json_decref(answer);
    return err;
}

int run_agent_set(struct cli *c, const struct command *self, struct error *e)
{
    char *id = client_escape(c->args[0]);
    json_t *body = json_pack("{s:b}", "drain", c->options.drain);
    int err = cli_call(c, "POST", body, NULL, e, "/api/v1/agents/%s/%s", id, self->verb);
    json_decref(body);
    free(id);
    return err ? err
               : cli_report(c, json_pack("{s:s, s:s}", "id", c->args[0], "done", self->verb), e,
                            "Agent %s: %s", c->args[0],
                            strcmp(self->verb, "enable") == 0 ? "enabled"
                            : c->options.drain ? "takes no new tasks; running tasks finish"
                                               : "disabled");
}

int run_agent_forget(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    char *id = client_escape(c->args[0]);
    int err = cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/agents/%s", id);
    free(id);
    return err ? err
               : cli_report(c, json_pack("{s:s, s:s}", "id", c->args[0], "done", "forget"), e,
                            "Agent %s is removed from the list", c->args[0]);
}

// "64.0 GiB"; 0: "no limit".
static void set_size(json_t *row, const char *name, const json_t *limits, const char *key)
{
    char text[SIZE_TEXT];
    int64_t bytes = jget_int(limits, key, 0);
    const char *shown = bytes > 0 ? size_text((uint64_t)bytes, text) : "no limit";
    json_object_set_new(row, name, json_string(shown));
}

static void set_count(json_t *row, const char *name, const json_t *limits)
{
    int64_t count = jget_int(limits, name, 0);
    json_object_set_new(row, name,
                        count > 0 ? json_integer((json_int_t)count) : json_string("no limit"));
}

static int print_limits(struct cli *c, const json_t *limits, struct error *e)
{
    if (!limits)
        return 0;
    json_t *row = json_object();
    set_count(row, "processes", limits);
    set_size(row, "memory", limits, "memory");
    set_size(row, "disk", limits, "disk");
    set_count(row, "files", limits);
    set_size(row, "disk_floor", limits, "diskFloor");
    printf("\nLimits of each task\n");
    int err = output_object(c, row, "processes,memory,disk,files,disk_floor", e);
    json_decref(row);
    return err;
}

// What protects the machine and other tasks against a task.
static int print_protections(struct cli *c, const json_t *list, struct error *e)
{
    size_t i;
    json_t *entry;
    if (!list)
        return 0;
    json_t *rows = json_array();
    json_array_foreach(list, i, entry)
    {
        const char *state = jget_bool(entry, "active", false) ? "active" : "missing";
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "protection",
                                              jget_string(entry, "name", ""), "state", state,
                                              "reason", jget_string(entry, "reason", "")));
    }
    printf("\nProtections against a task\n");
    int err = output_rows(c, rows, "protection,state,reason", e);
    json_decref(rows);
    return err;
}

// --- enrolment -----------------------------------------------------------------------------------

// The address at which a new machine reaches the master: as told, else as the master was told, else
// the one in use here, or, if that is this machine's loopback, the name of the master's machine.
static int enrolment_address(struct cli *c, const json_t *answer, struct enrolment *out,
                             struct error *e)
{
    bool https = jget_bool(answer, "https", false);
    const char *fingerprint = https ? jget_string(answer, "fingerprint", "") : "";
    const char *set = jget_string(answer, "masterUrl", ""), *name;
    const char *url = c->options.url ? c->options.url : *set ? set : c->master;
    int err = enrolment_set_url(out, url, fingerprint, e);
    name = jget_string(answer, "hostName", "");
    if (!err && url == c->master && *name && enrolment_is_loopback(out))
        snprintf(out->host, sizeof out->host, "%s", name);
    return err;
}

static void advise_enrolment(const struct cli *c, const struct enrolment *s, const json_t *answer)
{
    const char *name = c->options.name;
    if (s->authority == ENROLMENT_PLAIN && !enrolment_is_loopback(s))
        fputs("muster: without https everybody on the network can read the credential; make a "
              "certificate with muster-master --init\n",
              stderr);
    if (enrolment_is_loopback(s))
        fputs("muster: this line works on the master's machine only; give --url URL for others\n",
              stderr);
    fprintf(stderr,
            "On the new machine, before %s:\n"
            "  muster-agent --work-dir /var/lib/muster-agent%s%s --enroll-file -\n"
            "and paste the line above (--enroll LINE works, too, but shows it in lists of "
            "processes)\n",
            jget_string(jget(answer, "enrolment"), "expiresAt", ""), name ? " --id " : "",
            name ? name : "");
}

static int print_enrolment(struct cli *c, const json_t *answer, const struct enrolment *s,
                           struct error *e)
{
    char *line = enrolment_format(s);
    int err = 0;
    if (c->format == OUTPUT_TABLE) {
        puts(line);
        fflush(stdout);
        if (!c->options.quiet)
            advise_enrolment(c, s, answer);
    } else {
        const json_t *made = jget(answer, "enrolment");
        json_t *row = json_pack("{s:s, s:I, s:s, s:I}", "enrolment", line, "id",
                                (json_int_t)jget_int(made, "id", 0), "expires",
                                jget_string(made, "expiresAt", ""), "uses",
                                (json_int_t)jget_int(made, "usesLeft", 0));
        err = output_object(c, row, "enrolment,id,expires,uses", e);
        json_decref(row);
    }
    explicit_bzero(line, strlen(line));
    free(line);
    return err;
}

// The master takes Go's units, which have no days.
static const char *lifespan_of(struct cli *c, const char *ttl)
{
    size_t digits = strspn(ttl, "0123456789");
    if (!digits || digits > 6 || strcmp(ttl + digits, "d") != 0)
        return ttl;
    return arena_printf(&c->arena, "%lldh", strtoll(ttl, NULL, 10) * 24);
}

int run_agent_enroll(struct cli *c, const struct command *self, struct error *e)
{
    struct enrolment s = {0};
    json_t *answer = NULL;
    (void)self;
    if (c->options.url && enrolment_set_url(&s, c->options.url, "", e))
        return error_prefix(e, "--url");
    json_t *body = json_pack("{s:s?, s:s*, s:I}", "agentId", c->options.name, "lifespan",
                             lifespan_of(c, c->options.ttl ? c->options.ttl : "1h"), "uses",
                             (json_int_t)(c->options.uses ? c->options.uses : 1));
    if (c->options.pool)
        json_object_set_new(body, "pool", json_string(c->options.pool));
    int err = cli_call(c, "POST", body, &answer, e, "/api/v1/agent-enrolments");
    if (!err)
        err = enrolment_address(c, answer, &s, e);
    snprintf(s.token, sizeof s.token, "%s", jget_string(answer, "token", ""));
    err = err ? err : print_enrolment(c, answer, &s, e);
    json_decref(body);
    json_decref(answer);
    return err;
}

int run_agent_credentials(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL, *rows = json_array(), *one;
    size_t i;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/agent-credentials");
    json_array_foreach(jget(answer, "credentials"), i, one)
    {
        json_array_append_new(rows, json_pack("{s:s, s:s, s:s?, s:I}", "agent",
                                              jget_string(one, "agentId", ""), "enrolled",
                                              jget_string(one, "createdAt", ""), "seen",
                                              jget_string(one, "lastSeen", NULL), "enrolment",
                                              (json_int_t)jget_int(one, "enrolmentId", 0)));
    }
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(answer);
    return err;
}

int run_agent_revoke(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    char *id = client_escape(c->args[0]);
    int err = cli_call(c, "DELETE", NULL, NULL, e, "/api/v1/agent-credentials/%s", id);
    free(id);
    return err ? err
               : cli_report(c, json_pack("{s:s, s:s}", "id", c->args[0], "done", "revoke"), e,
                            "The credential of agent %s has ended; muster agent enroll --name %s "
                            "lets it join again",
                            c->args[0], c->args[0]);
}

// --- agents and slots ----------------------------------------------------------------------------

int run_agent_describe(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL, *slots = json_array(), *slot;
    char *id = client_escape(c->args[0]);
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/agents/%s", id);
    if (!err) {
        const json_t *agent = jget(answer, "agent");
        const char *key;
        json_t *row = row_agent(agent);
        json_object_foreach(jget(agent, "slots"), key, slot)
        {
            json_array_append_new(slots, row_slot(agent, slot));
        }
        json_object_set_new(row, "host", json_string(jget_string(agent, "hostname", "")));
        json_object_set_new(row, "rack", json_string(jget_string(agent, "rack", "")));
        json_object_set(row, "addresses", jget(agent, "addresses"));
        json_object_set(row, "slot_list", slots);
        json_object_set(row, "task_limits", jget(agent, "taskLimits"));
        json_object_set(row, "protections", jget(agent, "protections"));
        err = output_object(
            c, row,
            "id,host,addresses,pool,rack,slots,used,faults,connected,lost,seen,enabled,draining,"
            "version,registered",
            e);
        json_decref(row);
    }
    if (!err && c->format == OUTPUT_TABLE && !c->options.columns) {
        printf("\nSlots\n");
        err = output_rows(c, slots, "slot,type,device,near,load,enabled,health,allocation", e);
        err = err ? err : print_limits(c, jget(jget(answer, "agent"), "taskLimits"), e);
        err = err ? err : print_protections(c, jget(jget(answer, "agent"), "protections"), e);
    }
    json_decref(slots);
    json_decref(answer);
    free(id);
    return err;
}

int run_slot_list(struct cli *c, const struct command *self, struct error *e)
{
    json_t *answer = NULL, *rows = json_array();
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/agents");
    size_t i;
    const char *key;
    json_t *agent, *slot;
    json_array_foreach(jget(answer, "agents"), i, agent)
    {
        if (c->options.agent && strcmp(c->options.agent, jget_string(agent, "id", "")) != 0)
            continue;
        json_object_foreach(jget(agent, "slots"), key, slot)
        {
            json_array_append_new(rows, row_slot(agent, slot));
        }
    }
    err = err ? err : output_rows(c, rows, self->columns, e);
    json_decref(rows);
    json_decref(answer);
    return err;
}

int run_slot_set(struct cli *c, const struct command *self, struct error *e)
{
    char *agent = client_escape(c->args[0]), *slot = client_escape(c->args[1]);
    json_t *body = json_pack("{s:b}", "drain", c->options.drain);
    int err = cli_call(c, "POST", body, NULL, e, "/api/v1/agents/%s/slots/%s/%s", agent, slot,
                       self->verb);
    json_decref(body);
    free(slot);
    free(agent);
    return err ? err
               : cli_report(c,
                            json_pack("{s:s, s:s, s:s}", "agent", c->args[0], "slot", c->args[1],
                                      "done", self->verb),
                            e, "Slot %s of agent %s: %sd", c->args[1], c->args[0], self->verb);
}

int run_master_info(struct cli *c, const struct command *self, struct error *e)
{
    (void)self;
    json_t *answer = NULL;
    int err = cli_call(c, "GET", NULL, &answer, e, "/api/v1/master");
    if (!err) {
        const char *notice = jget_string(jget(answer, "clusterMessage"), "message", "");
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "address", c->master, "name",
                                jget_string(answer, "clusterName", ""), "version",
                                jget_string(answer, "musterVersion", ""), "api",
                                jget_string(answer, "version", ""), "cluster",
                                jget_string(answer, "clusterId", ""), "notice", notice);
        err = output_object(c, row,
                            *notice ? "address,name,version,api,cluster,notice"
                                    : "address,name,version,api,cluster",
                            e);
        json_decref(row);
    }
    json_decref(answer);
    return err;
}
