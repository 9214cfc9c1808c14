// The pure parts of `muster cluster`: the hosts file, the plan of steps, the facts about machines,
// the logs of daemons.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/cluster/facts.h"
#include "cli/cluster/plan.h"
#include "cli/cluster/remote.h"
#include "cli/cluster/ssh/known_hosts_line.h"
#include "cli/cluster/trouble.h"

// --- names ---------------------------------------------------------------------------------------

static void expect_names(const char *name, const char *expected)
{
    char **names = NULL;
    size_t count = 0;
    struct buf all;
    buf_init(&all, 1 << 20);
    assert_int_equal(hosts_expand(name, &names, &count, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&all, "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    free(names);
    assert_string_equal(buf_str(&all), expected);
    buf_free(&all);
}

static void ranges_are_expanded(void **state)
{
    (void)state;
    expect_names("head", "head");
    expect_names("gpu[1-3]", "gpu1 gpu2 gpu3");
    expect_names("gpu[08-10,12].lab", "gpu08.lab gpu09.lab gpu10.lab gpu12.lab");
    expect_names("r[1-2]n[1,3]", "r1n1 r1n3 r2n1 r2n3");
    expect_names("10.0.0.[3-4]", "10.0.0.3 10.0.0.4");
}

static void wrong_ranges_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"gpu[1-",  "gpu[]",     "gpu[3-1]", "gpu[a-b]",   "gpu1]",
                                        "gpu[1,]", "gpu[1--2]", "gpu[,1]",  "gpu[1-2-3]", "a[1]]"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char **names = NULL;
        size_t count = 0;
        struct error e = {0};
        assert_int_equal(hosts_expand(wrong[i], &names, &count, &e), ERR_INVALID);
        assert_non_null(strstr(e.text, "gpu[1-8]"));
        assert_null(names);
    }
}

static void long_ranges_are_refused(void **state)
{
    (void)state;
    struct buf text;
    char **names = NULL;
    size_t count = 0;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 100000; i++)
        buf_puts(&text, "[1]");
    assert_int_equal(hosts_expand(buf_str(&text), &names, &count, NULL), ERR_INVALID);
    buf_reset(&text);
    buf_puts(&text, "a[1-4096]");
    for (int i = 0; i < 500000; i++)
        buf_puts(&text, "x");
    assert_int_equal(hosts_expand(buf_str(&text), &names, &count, NULL), ERR_INVALID);
    buf_free(&text);
}

static void ranges_have_a_limit(void **state)
{
    (void)state;
    char name[32], **names = NULL;
    size_t count = 0;
    struct error e = {0};
    snprintf(name, sizeof(name), "n[1-%d]", LIMIT_AGENTS);
    assert_int_equal(hosts_expand(name, &names, &count, NULL), 0);
    assert_int_equal(count, LIMIT_AGENTS);
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    snprintf(name, sizeof(name), "n[1-%d]", LIMIT_AGENTS + 1);
    assert_int_equal(hosts_expand(name, &names, &count, &e), ERR_INVALID);
    assert_non_null(strstr(e.text, "4096"));
}

// --- the hosts file ------------------------------------------------------------------------------

#define HEAD    "master: {host: head, address: 10.0.0.1}\n"
#define INSTALL "install: {tarball: release.tar.xz}\n"

static int parse(const char *text, struct hosts_file *f, struct error *e)
{
    assert_int_equal(file_write_durable("release.tar.xz", "x", 1, 0600, NULL), 0);
    int err = hosts_parse(text, strlen(text), "hosts.yaml", f, e);
    return err ? err : hosts_check_files(f, e);
}

static void a_hosts_file_is_read(void **state)
{
    (void)state;
    struct hosts_file f;
    struct buf text;
    assert_int_equal(parse(HEAD "agents:\n"
                                "  - {host: head, slots: 2}\n"
                                "  - {host: \"gpu[1-2]\", pool: big, rack: r1}\n"
                                "ssh: {user: ops, port: 2222}\n"
                                "checkpoints: /srv/muster\n" INSTALL,
                           &f, NULL),
                     0);
    assert_int_equal(f.count, 3);
    assert_true(f.hosts[0].is_master && f.hosts[0].is_agent);
    assert_string_equal(f.hosts[0].address, "10.0.0.1");
    assert_int_equal(f.hosts[0].slots, 2);
    assert_string_equal(f.hosts[2].name, "gpu2");
    assert_string_equal(f.hosts[2].address, "gpu2");
    assert_false(f.hosts[2].is_master);
    assert_int_equal(f.ssh_port, 2222);
    assert_string_equal(f.ssh_user, "ops");
    assert_int_equal(f.port, 8080);
    assert_true(f.is_tarball);
    buf_init(&text, 4096);
    hosts_write_agent_flags(&f.hosts[2], &text);
    assert_string_equal(buf_str(&text), "--id gpu2 --pool big --address gpu2 --rack r1");
    buf_reset(&text);
    hosts_write_agent_flags(&f.hosts[0], &text);
    assert_string_equal(buf_str(&text), "--id head --pool default --address 10.0.0.1 --slots 2");
    buf_free(&text);
    hosts_free(&f);
}

static void settings_reach_the_master(void **state)
{
    (void)state;
    struct hosts_file f;
    struct buf text;
    struct yaml_doc doc;
    assert_int_equal(parse("master: {host: head, port: 8443, settings: {scheduler: fifo, "
                           "resource_pools: [{pool_name: big}]}}\n"
                           "agents: [{host: a}]\n" INSTALL,
                           &f, NULL),
                     0);
    buf_init(&text, 4096);
    hosts_write_master_yaml(&f, &text);
    assert_int_equal(yaml_parse(buf_str(&text), text.len, "master.yaml", &doc, NULL), 0);
    assert_int_equal(jget_int(doc.root, "port", 0), 8443);
    assert_string_equal(jget_string(doc.root, "scheduler", ""), "fifo");
    assert_string_equal(jget_string(doc.root, "data_dir", ""), "/var/lib/muster");
    assert_string_equal(
        jget_string(json_array_get(jget(doc.root, "resource_pools"), 0), "pool_name", ""), "big");
    yaml_doc_free(&doc);
    buf_free(&text);
    hosts_free(&f);
}

static void a_master_with_an_address_of_ipv6_listens_there(void **state)
{
    (void)state;
    static const char *const heads[] = {"master: {host: head, address: \"fd00::1\"}\n", HEAD};
    for (size_t i = 0; i < 2; i++) {
        struct hosts_file f;
        struct buf text, file;
        buf_init(&file, 4096);
        buf_init(&text, 4096);
        buf_printf(&file, "%sagents: [{host: a}]\n" INSTALL, heads[i]);
        assert_int_equal(parse(buf_str(&file), &f, NULL), 0);
        hosts_write_master_yaml(&f, &text);
        assert_int_equal(strstr(buf_str(&text), "bind: \"::\"\n") != NULL, i == 0);
        buf_free(&text);
        buf_free(&file);
        hosts_free(&f);
    }
}

static void faults_of_a_hosts_file_have_positions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {HEAD INSTALL, "agents"},
        {HEAD "agents: []\n" INSTALL, "hosts.yaml:2:9: agents: the list is empty"},
        {HEAD "agents: [{host: a, slot: 2}]\n" INSTALL, "did you mean \"slots\"?"},
        {HEAD "agents: [{host: a, slots: many}]\n" INSTALL,
         "hosts.yaml:2:27: agents.0.slots: expected one of auto or a whole number from 1 to "},
        {HEAD "agents: [{host: \"a[1-\"}]\n" INSTALL, "hosts.yaml:2:17: agents.0.host: \"a[1-\""},
        {HEAD "agents: [{host: a}, {host: a}]\n" INSTALL, "a is listed twice"},
        {HEAD "agents: [{host: \"a[1-2]\", address: b}]\n" INSTALL, "cannot have one address"},
        {HEAD "agents: [{host: \"a;b\"}]\n" INSTALL, "a name consists of"},
        {HEAD "agents: [{host: -x}]\n" INSTALL, "a name consists of"},
        {HEAD "agents: [{host: a, pool: \"x y\"}]\n" INSTALL, "pool and rack"},
        {HEAD "agents: [{host: a}]\ninstall: {}\n", "either a tarball or packages"},
        {HEAD "agents: [{host: a}]\ninstall: {tarball: none.tar}\n", "there is no file none.tar"},
        {HEAD "agents: [{host: a}]\ncheckpoints: srv\n" INSTALL, "expected an absolute path"},
        {"master: {host: h, settings: {port: 1}}\nagents: [{host: a}]\n" INSTALL,
         "write it to master.port"},
        {"master: {host: h, settings: {data-dir: /x}}\nagents: [{host: a}]\n" INSTALL,
         "the name of a setting"},
        {"master: {host: h, settings: {\"a: 1\\ninsecure\": true}}\nagents: [{host: a}]\n" INSTALL,
         "the name of a setting"},
        {"master: {host: h, settings: {tls_cert: c.pem}}\nagents: [{host: a}]\n" INSTALL,
         "makes the certificate"},
        {HEAD "agents: [{host: head, address: 10.0.0.9}]\n" INSTALL, "write its address to"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hosts_file f;
        struct error e = {0};
        assert_int_not_equal(parse(cases[i].text, &f, &e), 0);
        if (!strstr(e.text, cases[i].message))
            fail_msg("case %zu: \"%s\" is not in \"%s\"", i, cases[i].message, e.text);
        hosts_free(&f);
    }
}

// "cluster down" and "cluster status" work without the files of the release.
static void the_files_of_the_release_may_be_missing(void **state)
{
    (void)state;
    static const char text[] = HEAD "agents: [{host: a}]\ninstall: {tarball: none-aarch64.tar}\n";
    struct hosts_file f;
    assert_int_equal(hosts_parse(text, strlen(text), "hosts.yaml", &f, NULL), 0);
    assert_int_equal(hosts_check_files(&f, NULL), ERR_NOT_FOUND);
    assert_string_equal(hosts_arch(&f), "aarch64");
    hosts_free(&f);
}

static void packages_go_to_their_machines(void **state)
{
    (void)state;
    const struct host master = {.is_master = true}, agent = {.is_agent = true};
    assert_true(hosts_needs_package(&master, "out/muster-master_0.1.0_amd64.deb"));
    assert_false(hosts_needs_package(&agent, "out/muster-master_0.1.0_amd64.deb"));
    assert_true(hosts_needs_package(&agent, "muster-agent_0.1.0_amd64.deb"));
    assert_false(hosts_needs_package(&master, "muster-trainer_0.1.0_amd64.deb"));
    assert_true(hosts_needs_package(&master, "muster-client_0.1.0_amd64.deb"));
}

// --- the plan ------------------------------------------------------------------------------------

static const struct plan_step steps[] = {
    {.name = "check", .roles = ROLE_BOTH},
    {.name = "all", .roles = ROLE_BOTH, .gate = GATE_ALL},
    {.name = "master", .roles = ROLE_MASTER},
    {.name = "agent", .roles = ROLE_AGENT, .gate = GATE_MASTER},
    {0},
};

// Runs the plan with one thread; `fails` names the step at which a machine fails, as "1:agent".
// Writes the order of the steps as "0:check 1:check ..".
static void run_plan(const struct plan_step *table, const int *roles, size_t count,
                     const char *fails, struct plan_machine *machines, struct buf *order)
{
    struct work_plan p = {.steps = table, .machines = machines, .count = count, .at_once = 1};
    size_t i = 0;
    for (size_t k = 0; k < count; k++)
        plan_add(&p, k, roles[k]);
    buf_init(order, 4096);
    enum plan_answer answer;
    while ((answer = plan_pick(&p, &i)) == PLAN_RUN) {
        char now[32];
        snprintf(now, sizeof(now), "%zu:%s", i, table[machines[i].step].name);
        buf_printf(order, "%s%s", order->len ? " " : "", now);
        plan_report(&p, i, strcmp(now, fails) == 0, false);
    }
    assert_int_equal(answer, PLAN_END); // with one thread nobody is busy, so nobody waits
}

static void the_steps_have_an_order(void **state)
{
    (void)state;
    const int roles[] = {ROLE_MASTER, ROLE_AGENT};
    struct plan_machine machines[2];
    struct buf order;
    run_plan(steps, roles, 2, "", machines, &order);
    assert_string_equal(buf_str(&order), "0:check 1:check 0:all 0:master 1:all 1:agent");
    assert_int_equal(machines[1].state, PLAN_DONE);
    buf_free(&order);
}

static void a_failure_stops_only_its_machine(void **state)
{
    (void)state;
    const int roles[] = {ROLE_BOTH, ROLE_AGENT, ROLE_AGENT};
    struct plan_machine machines[3];
    struct buf order;
    run_plan(steps, roles, 3, "1:check", machines, &order);
    assert_int_equal(machines[0].state, PLAN_DONE);
    assert_int_equal(machines[1].state, PLAN_FAILED);
    assert_int_equal(machines[2].state, PLAN_DONE);
    assert_non_null(strstr(buf_str(&order), "2:agent"));
    buf_free(&order);
}

static void nobody_passes_a_failed_master(void **state)
{
    (void)state;
    const int roles[] = {ROLE_MASTER, ROLE_AGENT};
    struct plan_machine machines[2];
    struct buf order;
    run_plan(steps, roles, 2, "0:master", machines, &order);
    assert_int_equal(machines[1].state, PLAN_BARRED);
    assert_null(strstr(buf_str(&order), "1:agent"));
    buf_free(&order);
}

static const struct plan_step rolling[] = {
    {.name = "copy", .roles = ROLE_BOTH},
    {.name = "master", .roles = ROLE_MASTER, .gate = GATE_ALL_GOOD},
    {.name = "agent",
     .roles = ROLE_AGENT,
     .gate = GATE_MASTER,
     .one_by_one = true,
     .ends_after_failure = true},
    {0},
};

static void an_upgrade_begins_with_nothing_unless_all_are_prepared(void **state)
{
    (void)state;
    const int roles[] = {ROLE_MASTER, ROLE_AGENT, ROLE_AGENT};
    struct plan_machine machines[3];
    struct buf order;
    run_plan(rolling, roles, 3, "2:copy", machines, &order);
    assert_string_equal(buf_str(&order), "0:copy 1:copy 2:copy");
    assert_int_equal(machines[0].state, PLAN_BARRED);
    assert_int_equal(machines[1].state, PLAN_BARRED);
    buf_free(&order);
}

static void an_upgrade_stops_at_the_first_failure(void **state)
{
    (void)state;
    const int roles[] = {ROLE_MASTER, ROLE_AGENT, ROLE_AGENT, ROLE_AGENT};
    struct plan_machine machines[4];
    struct buf order;
    run_plan(rolling, roles, 4, "2:agent", machines, &order);
    assert_int_equal(machines[1].state, PLAN_DONE);
    assert_int_equal(machines[2].state, PLAN_FAILED);
    assert_int_equal(machines[3].state, PLAN_BARRED);
    buf_free(&order);
}

static void agents_are_upgraded_one_by_one(void **state)
{
    (void)state;
    struct plan_machine machines[3];
    struct work_plan p = {.steps = rolling, .machines = machines, .count = 3, .at_once = 1};
    size_t i = 0;
    for (size_t k = 0; k < 3; k++)
        plan_add(&p, k, k ? ROLE_AGENT : ROLE_MASTER);
    for (int k = 0; k < 4; k++) { // three copies, and the master
        assert_int_equal(plan_pick(&p, &i), PLAN_RUN);
        plan_report(&p, i, false, false);
    }
    assert_int_equal(plan_pick(&p, &i), PLAN_RUN);
    assert_int_equal(i, 1);
    assert_int_equal(plan_pick(&p, &i), PLAN_WAIT);
    plan_report(&p, 1, false, true);
    assert_true(machines[1].changed);
    assert_int_equal(plan_pick(&p, &i), PLAN_RUN);
    assert_int_equal(i, 2);
    plan_report(&p, 2, false, false);
    assert_int_equal(plan_pick(&p, &i), PLAN_END);
}

// --- facts ---------------------------------------------------------------------------------------

static void versions_are_compared(void **state)
{
    (void)state;
    assert_int_equal(version_compare("2.36", "2.36"), 0);
    assert_int_equal(version_compare("2.4", "2.36"), -1);
    assert_int_equal(version_compare("525.60.13", "525.60"), 1);
    assert_int_equal(version_compare("535", "525.60.13"), 1);
    assert_int_equal(version_compare("", "1"), -1);
}

#define GOOD                                                                                       \
    "user=root\narch=x86_64\nos=debian 12\nglibc=2.36\nroot=yes\nfree_kb /opt=9000000\n"           \
    "free_kb /var/cache=9000000\nfree_kb /var/lib=9000000\npython=3.11.2\nmissing=\n"              \
    "gpus_on_bus=0\ngpus=0\ndriver=\nnccl=no\nchecked=yes\n"

// The findings about an agent's machine, as text.
static void expect_findings(const char *text, const char *level, const char *problem)
{
    const struct host host = {.name = (char *)"a", .is_agent = true};
    const struct hosts_file file = {.port = 8080, .is_tarball = true};
    const struct fact_context context = {&host, &file, 30 << 20, "x86_64"};
    json_t *facts = facts_parse(text), *findings = json_array();
    facts_judge(facts, &context, findings);
    if (!problem) {
        assert_int_equal(json_array_size(findings), 0);
    } else {
        assert_int_equal(json_array_size(findings), 1);
        const json_t *one = json_array_get(findings, 0);
        assert_string_equal(jget_string(one, "level", ""), level);
        assert_non_null(strstr(jget_string(one, "problem", ""), problem));
        assert_true(strlen(jget_string(one, "fix", "")) > 10);
        assert_int_equal(finding_error(findings, 0) != NULL, strcmp(level, "error") == 0);
    }
    json_decref(findings);
    json_decref(facts);
}

static void each_fault_of_a_machine_has_its_message(void **state)
{
    (void)state;
    expect_findings(GOOD, NULL, NULL);
    expect_findings(GOOD "arch=aarch64\n", "error", "the processor is aarch64");
    expect_findings(GOOD "glibc=2.31\nos=debian 11\n", "error", "debian 11 is not supported");
    expect_findings(GOOD "glibc=\nos=alpine 3.19\n", "error", "its glibc is missing");
    expect_findings(GOOD "root=sudo is not installed\nuser=ann\n", "error",
                    "the user ann has no sudo");
    expect_findings(GOOD "free_kb /opt=1000\n", "error", "the disk is full: /opt");
    expect_findings(GOOD "driver=470.10\ngpus=2\n", "error", "driver 470.10 is too old");
    expect_findings(GOOD "gpus_on_bus=4\n", "error", "4 GPUs, and no working driver");
    expect_findings(GOOD "driver=570.86\ngpus=2\n", "warning", "NCCL is missing");
    expect_findings(GOOD "driver=570.86\ngpus=2\nnccl=yes\n", NULL, NULL);
    expect_findings(GOOD "python=\n", "warning", "python3 is missing");
    expect_findings(GOOD "python=3.8.1\n", "warning", "python3 is too old: 3.8.1");
    expect_findings(GOOD "missing=xz\n", "error", "programs are missing: xz");
    expect_findings("arch=x86_64\n", "error", "the checks did not finish");
}

// Lines of logs and of programs may hold any bytes.
static void a_finding_is_kept_whatever_its_bytes_are(void **state)
{
    (void)state;
    json_t *findings = json_array();
    finding_add(findings, FINDING_ERROR, "repair it", "the log says \"%s\"", "caf\xe9");
    assert_int_equal(json_array_size(findings), 1);
    assert_string_equal(jget_string(json_array_get(findings, 0), "problem", ""),
                        "the log says \"caf\"");
    json_decref(findings);
}

static void clocks_are_judged(void **state)
{
    (void)state;
    static const struct {
        double ahead_s, unsure_s;
        const char *level, *problem;
    } cases[] = {{0.4, 0, NULL, NULL},
                 {-0.9, 0, NULL, NULL},
                 {1.5, 0.4, "warning", "1.5 s ahead of"},
                 {1.5, 0.6, NULL, NULL}, // a busy machine answers late
                 {-7, 2.5, "warning", "7.0 s behind"},
                 {-61, 2.5, "error", "61.0 s behind"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_t *findings = json_array();
        facts_judge_clock(cases[i].ahead_s, cases[i].unsure_s, findings);
        const json_t *one = json_array_get(findings, 0);
        assert_int_equal(one != NULL, cases[i].level != NULL);
        if (one) {
            assert_string_equal(jget_string(one, "level", ""), cases[i].level);
            assert_non_null(strstr(jget_string(one, "problem", ""), cases[i].problem));
        }
        json_decref(findings);
    }
}

static void closed_ports_are_judged(void **state)
{
    (void)state;
    struct host hosts[] = {{.name = (char *)"head", .address = (char *)"10.0.0.1"}};
    const struct hosts_file file = {.port = 8080, .hosts = hosts, .count = 1};
    const struct fact_context context = {hosts, &file, 0, "x86_64"};
    json_t *facts = facts_parse("probe master=closed: timed out\nprobe ranks=12\n");
    json_t *findings = json_array();
    facts_judge_network(facts, &context, "gpu2", findings);
    assert_int_equal(json_array_size(findings), 2);
    assert_string_equal(jget_string(json_array_get(findings, 0), "problem", ""),
                        "the port 8080 of the master 10.0.0.1 does not answer from there (closed: "
                        "timed out)");
    assert_string_equal(jget_string(json_array_get(findings, 1), "problem", ""),
                        "it sends only 12 Mbit/s to gpu2");
    json_decref(findings);
    json_decref(facts);
}

// --- scripts and logs ----------------------------------------------------------------------------

static void lines_of_known_hosts_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *line, *name;
        enum known_line expected;
    } cases[] = {
        {"gpu1 ssh-ed25519 AAAA", "gpu1", LINE_KEY},
        {"gpu1 ssh-ed25519 BBBB", "gpu1", LINE_OTHER_KEY},
        {"gpu1 ssh-rsa BBBB comment", "gpu1", LINE_OTHER_KEY},
        {"gpu* ssh-ed25519 BBBB", "gpu1", LINE_OTHER_KEY},
        {"a,gpu?,b ssh-ed25519 AAAA", "GPU1", LINE_KEY},
        {"!gpu1,gpu* ssh-ed25519 BBBB", "gpu1", LINE_OTHER_HOST},
        {"gpu*,!gpu1 ssh-ed25519 BBBB", "gpu1", LINE_OTHER_HOST},
        {"[gpu1]:2222 ssh-ed25519 BBBB", "[gpu1]:2222", LINE_OTHER_KEY},
        {"[gpu1]:2222 ssh-ed25519 BBBB", "g", LINE_OTHER_HOST},
        {"gpu2 ssh-ed25519 BBBB", "gpu1", LINE_OTHER_HOST},
        {"@revoked * ssh-ed25519 AAAA", "gpu1", LINE_REVOKED},
        {"@revoked |1|x|y ssh-ed25519 AAAA", "gpu1", LINE_REVOKED},
        {"@revoked * ssh-ed25519 BBBB", "gpu1", LINE_OTHER_HOST},
        {"@cert-authority * ssh-ed25519 BBBB", "gpu1", LINE_OTHER_HOST},
        {"gpu1", "gpu1", LINE_OTHER_HOST},
        {"@revoked", "gpu1", LINE_OTHER_HOST},
        {"# gpu1 ssh-ed25519 AAAA", "gpu1", LINE_OTHER_HOST},
        {"", "gpu1", LINE_OTHER_HOST},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (known_hosts_line_read(cases[i].line, cases[i].name, "AAAA") != cases[i].expected)
            fail_msg("%s", cases[i].line);
}

static void values_are_quoted_for_the_shell(void **state)
{
    (void)state;
    struct buf vars;
    buf_init(&vars, 4096);
    remote_set(&vars, "A", "it's $(touch x) `id` \"\\");
    assert_string_equal(buf_str(&vars), "A='it'\\''s $(touch x) `id` \"\\'\n");
    buf_free(&vars);
}

static void the_reason_is_found_in_a_log(void **state)
{
    (void)state;
    static const struct {
        const char *log, *reason;
    } cases[] = {
        {"", "its log is empty"},
        {"ts=1 level=info msg=\"a\"\nts=2 level=info msg=\"b\"\n", "ts=2 level=info msg=\"b\""},
        {"level=info msg=\"a\"\nmuster-master: port 8080 is in use\n\nsystemd: failed\n",
         "muster-master: port 8080 is in use"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *reason = trouble_reason(cases[i].log);
        assert_string_equal(reason, cases[i].reason);
        free(reason);
    }
}

static void troubles_end_with_a_connection(void **state)
{
    (void)state;
    static const char away[] = "level=warn msg=\"no connection to the master\" agent=a\n";
    static const char back[] = "level=info msg=\"connected to the master\" agent=a\n";
    char log[300];
    json_t *findings = json_array();
    snprintf(log, sizeof(log), "%s%s", away, back);
    trouble_find(log, "agent", findings);
    assert_int_equal(json_array_size(findings), 0);
    snprintf(log, sizeof(log), "%s%s", back, away);
    trouble_find(log, "agent", findings);
    assert_int_equal(json_array_size(findings), 1);
    trouble_find(log, "master", findings); // it is a message of agents
    assert_int_equal(json_array_size(findings), 1);
    json_decref(findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_expanded),
        cmocka_unit_test(wrong_ranges_are_refused),
        cmocka_unit_test(long_ranges_are_refused),
        cmocka_unit_test(ranges_have_a_limit),
        cmocka_unit_test(a_hosts_file_is_read),
        cmocka_unit_test(settings_reach_the_master),
        cmocka_unit_test(a_master_with_an_address_of_ipv6_listens_there),
        cmocka_unit_test(faults_of_a_hosts_file_have_positions),
        cmocka_unit_test(the_files_of_the_release_may_be_missing),
        cmocka_unit_test(packages_go_to_their_machines),
        cmocka_unit_test(the_steps_have_an_order),
        cmocka_unit_test(a_failure_stops_only_its_machine),
        cmocka_unit_test(nobody_passes_a_failed_master),
        cmocka_unit_test(an_upgrade_begins_with_nothing_unless_all_are_prepared),
        cmocka_unit_test(an_upgrade_stops_at_the_first_failure),
        cmocka_unit_test(agents_are_upgraded_one_by_one),
        cmocka_unit_test(versions_are_compared),
        cmocka_unit_test(each_fault_of_a_machine_has_its_message),
        cmocka_unit_test(a_finding_is_kept_whatever_its_bytes_are),
        cmocka_unit_test(clocks_are_judged),
        cmocka_unit_test(closed_ports_are_judged),
        cmocka_unit_test(lines_of_known_hosts_are_read),
        cmocka_unit_test(values_are_quoted_for_the_shell),
        cmocka_unit_test(the_reason_is_found_in_a_log),
        cmocka_unit_test(troubles_end_with_a_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
