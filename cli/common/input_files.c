// Checks before a submission that the files which the trainer section reads are among those to
// upload. Otherwise the first start would fail.
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/file.h"
#include "base/text/json.h"
#include "cli/commands/commands.h"

static const char *const input_keys[] = {"path",
                                         "validation_path",
                                         "images",
                                         "labels",
                                         "inputs",
                                         "values",
                                         "validation_images",
                                         "validation_labels",
                                         "validation_inputs",
                                         "validation_values",
                                         NULL};

// Whether the file must be uploaded. Absolute paths are on the machines, "${name}" is known only
// with the hyperparameters, and the trainer checks paths that lead out of the folder.
static bool needs_upload(const char *path)
{
    return *path != '\0' && *path != '/' && !strstr(path, "${") && !strstr(path, "..");
}

static bool is_uploaded(const json_t *files, const char *path)
{
    for (size_t i = 0; i < json_array_size(files); i++)
        if (fnmatch(path, jget_string(json_array_get(files, i), "path", ""), FNM_PATHNAME) == 0)
            return true;
    return false;
}

static int report_missing(const char *where, const char *key, const char *path, const json_t *files,
                          const char *folder, struct error *e)
{
    if (!folder) {
        return error_set(e, ERR_INVALID,
                         "%s: %s: \"%s\" is a relative path, but no folder is uploaded; give the "
                         "folder that contains it: muster experiment create FILE FOLDER",
                         where, key, path);
    }
    size_t count = json_array_size(files);
    char *full = path_join(folder, path);
    const char **names = xcalloc(count + 1, sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] = jget_string(json_array_get(files, i), "path", "");
    const char *near = nearest_word(path, names);
    int err =
        path_exists(full)
            ? error_set(
                  e, ERR_INVALID,
                  "%s: %s: %s is not uploaded: .musterignore excludes it, or it is a symbolic link",
                  where, key, full)
            : error_set(e, ERR_INVALID, "%s: %s: there is no file \"%s\" in %s%s%s%s", where, key,
                        path, folder, near ? "; did you mean \"" : "", near ? near : "",
                        near ? "\"?" : "");
    free(names);
    free(full);
    return err;
}

static int check_input(const struct yaml_doc *doc, const char *key, const json_t *value,
                       const json_t *files, const char *folder, struct error *e)
{
    char where[512];
    const char *path = json_is_string(value) ? json_string_value(value) : "";
    path += strncmp(path, "./", 2) == 0 ? 2 : 0;
    if (!needs_upload(path) || is_uploaded(files, path))
        return 0;
    return report_missing(yaml_where(doc, key, where, sizeof(where)), key, path, files, folder, e);
}

// Warns if the entrypoint names a file that lies beside the experiment file, or in the current
// folder, and no files are submitted.
static void warn_of_no_files(const struct yaml_doc *doc, const char *config)
{
    const char *at = json_string_value(jget(doc->root, "entrypoint")),
               *slash = strrchr(config, '/');
    char *folder = slash ? xasprintf("%.*s", (int)(slash - config + 1), config) : xstrdup(".");
    bool found = false;
    while (at && !found && *(at += strspn(at, " \t\n;&|()\"'"))) {
        size_t len = strcspn(at, " \t\n;&|()\"'");
        char *word = xasprintf("%.*s", (int)len, at), *beside = path_join(folder, word);
        const char *dot = strrchr(word, '.');
        found = dot && dot > word && *word != '/' && (path_exists(beside) || path_exists(word));
        if (found)
            fprintf(stderr,
                    "warning: no files were submitted, and the entrypoint names %s; give the "
                    "folder that contains it: muster experiment create FILE FOLDER\n",
                    word);
        free(beside);
        free(word);
        at += len;
    }
    free(folder);
}

int inputs_check(const struct yaml_doc *doc, const json_t *files, const char *folder,
                 const char *config, struct error *e)
{
    const json_t *data = jget_path(doc->root, "trainer.data");
    int err = 0;
    for (int i = 0; input_keys[i] && !err; i++) {
        const json_t *value = json_object_get(data, input_keys[i]);
        char *key = xasprintf("trainer.data.%s", input_keys[i]);
        if (!json_is_array(value))
            err = check_input(doc, key, value, files, folder, e);
        for (size_t n = 0; n < json_array_size(value) && !err; n++) {
            char *item = xasprintf("%s.%zu", key, n);
            err = check_input(doc, item, json_array_get(value, n), files, folder, e);
            free(item);
        }
        free(key);
    }
    if (!err && !folder)
        warn_of_no_files(doc, config);
    return err;
}
