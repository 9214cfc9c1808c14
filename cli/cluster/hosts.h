// The hosts file of `muster cluster`: which machines form the cluster, how to reach them, and which
// release they run. Pure but for reading the file; the caller frees it with hosts_free().
#ifndef MUSTER_CLI_CLUSTER_HOSTS_H
#define MUSTER_CLI_CLUSTER_HOSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/text/yaml.h"

struct host {
    char *name;    // SSH connects to it; also the id of its agent
    char *address; // for the other machines
    bool is_master, is_agent;
    int slots;               // CPU slots that the agent offers; 0: it detects its slots
    const char *pool, *rack; // rack NULL: unknown
};

// Texts live as long as the file.
struct hosts_file {
    struct yaml_doc doc;
    struct host *hosts; // the master is hosts[0]; it may be an agent, too
    size_t count;
    const char *ssh_user;
    int ssh_port;
    char *ssh_key; // path; NULL: the keys of ssh-agent and the usual files
    char **files;  // the tarball, or the packages
    size_t file_count;
    bool is_tarball;
    int port; // of the master
    const char *cluster_name;
    const char *checkpoints; // folder of checkpoints; NULL: the default of a release
    const json_t *settings;  // further keys of the master's configuration file
};

// Reads and checks the file, but does not look for the files of the release. ERR_NOT_FOUND,
// ERR_INVALID with the position of the fault.
int hosts_read(const char *path, struct hosts_file *out, struct error *e);
// The same for a text; `path` is its name in messages, and relative paths are relative to its
// folder.
int hosts_parse(const char *text, size_t len, const char *path, struct hosts_file *out,
                struct error *e);
void hosts_free(struct hosts_file *f);

// Whether the files of the release are there. ERR_NOT_FOUND.
int hosts_check_files(const struct hosts_file *f, struct error *e);
// The processors for which the release was built, as uname -m prints them, by the names of its
// files.
const char *hosts_arch(const struct hosts_file *f);

// Expands the ranges of a name: "gpu[1-3]" is gpu1, gpu2, gpu3; "n[08-10,12]" keeps the zeros. The
// names are heap strings of the caller, in a heap array. ERR_INVALID: the range is malformed, or
// there are more than LIMIT_AGENTS names.
int hosts_expand(const char *name, char ***names, size_t *count, struct error *e);

// Whether a machine needs the Debian package with this file name: each gets those of its roles.
bool hosts_needs_package(const struct host *host, const char *file);

// Write the configuration files of the daemons.
void hosts_write_master_yaml(const struct hosts_file *f, struct buf *out);
void hosts_write_agent_flags(const struct host *host, struct buf *out);

#endif
