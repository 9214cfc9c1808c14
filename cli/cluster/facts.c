#include "cli/cluster/facts.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text/json.h"
#include "cli/output/meter.h"

// The oldest releases with which the programs work.
#define GLIBC_LEAST  "2.36"
#define DRIVER_LEAST "525.60.13" // of CUDA 12, by its compatibility between minor versions
#define PYTHON_LEAST "3.9"

enum {
    SKEW_ERROR_S = 5,            // lines of logs change their order, and tokens expire too early
    UNPACKED = 5,                // a release is at most so many times as large as its tarball
    DATA_KB_LEAST = 1024 * 1024, // room for tasks and the store
    BANDWIDTH_LEAST = 500,       // megabits per second
};
static const double SKEW_WARNING_S = 1;

json_t *facts_parse(const char *text)
{
    json_t *facts = json_object();
    for (const char *line = text; *line;) {
        size_t size = strcspn(line, "\n"), key = strcspn(line, "=\n");
        if (key > 0 && line[key] == '=') {
            char *name = xasprintf("%.*s", (int)key, line);
            json_t *value = json_stringn(line + key + 1, size - key - 1);
            if (value) // NULL: it is not UTF-8
                json_object_set_new(facts, name, value);
            free(name);
        }
        line += size + (line[size] == '\n');
    }
    return facts;
}

const char *fact_text(const json_t *facts, const char *key)
{
    const char *text = json_string_value(json_object_get(facts, key));
    return text ? text : "";
}

double fact_number(const json_t *facts, const char *key)
{
    return strtod(fact_text(facts, key), NULL);
}

int version_compare(const char *a, const char *b)
{
    while (*a || *b) {
        char *a_end, *b_end;
        long left = strtol(a, &a_end, 10), right = strtol(b, &b_end, 10);
        if (left != right)
            return left < right ? -1 : 1;
        if (a_end == a && b_end == b)
            return 0;
        a = *a_end == '.' ? a_end + 1 : "";
        b = *b_end == '.' ? b_end + 1 : "";
    }
    return 0;
}

// --- findings ------------------------------------------------------------------------------------

void finding_add(json_t *findings, enum finding_level level, const char *fix, const char *fmt, ...)
{
    char *problem = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&problem, fmt, args);
    va_end(args);
    if (n >= 0)
        json_array_append_new(findings, json_pack("{s:s, s:o, s:s}", "level",
                                                  level == FINDING_ERROR ? "error" : "warning",
                                                  "problem", json_string_cut(problem), "fix", fix));
    free(problem);
}

const json_t *finding_error(const json_t *findings, size_t from)
{
    for (size_t i = from; i < json_array_size(findings); i++) {
        const json_t *one = json_array_get(findings, i);
        if (strcmp(jget_string(one, "level", ""), "error") == 0)
            return one;
    }
    return NULL;
}

// --- judgements ----------------------------------------------------------------------------------

static void judge_system(const json_t *facts, const struct fact_context *x, json_t *findings)
{
    const char *os = fact_text(facts, "os"), *glibc = fact_text(facts, "glibc");
    const char *arch = fact_text(facts, "arch"), *root = fact_text(facts, "root");
    if (strcmp(arch, x->arch) != 0)
        finding_add(findings, FINDING_ERROR,
                    "install a release that was built on such a machine, or leave it out",
                    "the processor is %s, and the release is for %s", arch, x->arch);
    if (!*glibc || version_compare(glibc, GLIBC_LEAST) < 0)
        finding_add(findings, FINDING_ERROR,
                    "use Debian 12, Ubuntu 24.04, or another system with glibc " GLIBC_LEAST,
                    "the system %s%sis not supported: its glibc is %s, older than " GLIBC_LEAST, os,
                    *os ? " " : "", *glibc ? glibc : "missing");
    else if (!x->file->is_tarball && strcmp(os, "debian 12") != 0)
        finding_add(findings, FINDING_ERROR, "name the tarball under install instead of packages",
                    "the packages are for Debian 12, and this is %s", *os ? os : "another system");
    if (strcmp(root, "yes") != 0)
        finding_add(findings, FINDING_ERROR,
                    "sign in as root (ssh.user), or let the user run everything: echo 'USER "
                    "ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/muster",
                    "the user %s has no sudo without a password (%s)", fact_text(facts, "user"),
                    root);
    if (*fact_text(facts, "missing"))
        finding_add(findings, FINDING_ERROR,
                    "apt-get install bash tar xz-utils util-linux passwd coreutils",
                    "programs are missing: %s", fact_text(facts, "missing"));
}

static void judge_room(const json_t *facts, const struct fact_context *x, json_t *findings)
{
    const struct {
        const char *folder;
        int64_t bytes;
    } needs[] = {{"/opt", UNPACKED * x->install_bytes},
                 {"/var/cache", x->install_bytes},
                 {"/var/lib", (int64_t)DATA_KB_LEAST << 10}};
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        char key[64], want[24], have[24];
        snprintf(key, sizeof(key), "free_kb %s", needs[i].folder);
        double room = fact_number(facts, key) * 1024;
        if (*fact_text(facts, key) && room < (double)needs[i].bytes)
            finding_add(findings, FINDING_ERROR, "delete files there, or use a larger disk",
                        "the disk is full: %s has room for %s, and Muster needs %s",
                        needs[i].folder, meter_bytes((int64_t)room, have, sizeof(have)),
                        meter_bytes(needs[i].bytes, want, sizeof(want)));
    }
}

void facts_judge_clock(double ahead_s, double unsure_s, json_t *findings)
{
    double least_s = fabs(ahead_s) - unsure_s;
    if (least_s >= SKEW_WARNING_S)
        finding_add(findings, least_s >= SKEW_ERROR_S ? FINDING_ERROR : FINDING_WARNING,
                    "set the clocks by NTP on all machines: apt-get install chrony",
                    "the clock is %.1f s %s that of the master", fabs(ahead_s),
                    ahead_s > 0 ? "ahead of" : "behind");
}

void facts_judge_network(const json_t *facts, const struct fact_context *x, const char *neighbour,
                         json_t *findings)
{
    const char *master = fact_text(facts, "probe master"), *ranks = fact_text(facts, "probe ranks");
    if (strncmp(master, "closed", 6) == 0)
        finding_add(
            findings, FINDING_ERROR,
            "open the port in the firewall of the master's machine, and check master.address",
            "the port %d of the master %s does not answer from there (%s)", x->file->port,
            x->file->hosts[0].address, master);
    if (strncmp(ranks, "closed", 6) == 0)
        finding_add(findings, FINDING_WARNING,
                    "let the agents' machines reach one another's TCP ports 1024 and above; until "
                    "then, trainings on several machines fail",
                    "it does not reach the ports of the ranks on %s (%s)", neighbour, ranks);
    else if (*ranks && fact_number(facts, "probe ranks") < BANDWIDTH_LEAST)
        finding_add(
            findings, FINDING_WARNING,
            "check cables and the speed of the network; trainings on several machines are slow",
            "it sends only %s Mbit/s to %s", ranks, neighbour);
}

static void judge_gpus(const json_t *facts, const struct fact_context *x, json_t *findings)
{
    const char *driver = fact_text(facts, "driver");
    int gpus = (int)fact_number(facts, "gpus"), on_bus = (int)fact_number(facts, "gpus_on_bus");
    if (!x->host->is_agent || x->host->slots) // CPU slots need no GPU
        return;
    if (*driver && version_compare(driver, DRIVER_LEAST) < 0)
        finding_add(findings, FINDING_ERROR,
                    "install the driver " DRIVER_LEAST " or a newer one, or ask for CPU slots: "
                    "slots: N",
                    "NVIDIA's driver %s is too old: CUDA 12 needs " DRIVER_LEAST, driver);
    else if (!gpus && on_bus)
        finding_add(
            findings, FINDING_ERROR, "install NVIDIA's driver, or ask for CPU slots: slots: N",
            "the machine has %d GPUs, and no working driver (nvidia-smi -L lists none)", on_bus);
    else if (gpus > 0 && strcmp(fact_text(facts, "nccl"), "yes") != 0)
        finding_add(findings, FINDING_WARNING, "apt-get install libnccl2, from NVIDIA's repository",
                    "NCCL is missing: native trainings cannot use several GPUs");
}

static void judge_programs(const json_t *facts, const struct fact_context *x, json_t *findings)
{
    const char *python = fact_text(facts, "python");
    if (x->host->is_agent && (!*python || version_compare(python, PYTHON_LEAST) < 0))
        finding_add(findings, FINDING_WARNING, "apt-get install python3",
                    "python3 %s%s: Python programs cannot run there",
                    *python ? "is too old: " : "is missing", python);
    if (x->host->is_master && strcmp(fact_text(facts, "port_answers"), "yes") == 0 &&
        !*fact_text(facts, "master_pid"))
        finding_add(findings, FINDING_ERROR,
                    "stop that program, or choose another port: master.port",
                    "the port %d is taken by another program", x->file->port);
}

void facts_judge(const json_t *facts, const struct fact_context *x, json_t *findings)
{
    if (strcmp(fact_text(facts, "checked"), "yes") != 0) {
        finding_add(findings, FINDING_ERROR,
                    "sign in there with ssh, and run: sh -c 'uname -a; df'",
                    "the checks did not finish");
        return;
    }
    judge_system(facts, x, findings);
    judge_room(facts, x, findings);
    judge_gpus(facts, x, findings);
    judge_programs(facts, x, findings);
}
