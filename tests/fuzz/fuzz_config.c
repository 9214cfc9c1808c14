// The experiment file: YAML, values of the command line, a template, checks, defaults, and the
// trainer section of a trial.
//
//   the file  %%  one value on each line, "resources.slots_per_trial=3"  %%  the template
//
// A complete configuration must be accepted again and be complete: continue and fork rely on it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/expconf.h"
#include "api/config/template.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/text/json.h"
#include "tests/fuzz/support.h"

static void set_values(struct yaml_doc *doc, struct piece lines)
{
    struct piece line;
    struct error e;
    while (piece_next(&lines, "\n", &line)) {
        char *assignment = piece_copy(line);
        expconf_set(doc, assignment, &e);
        free(assignment);
    }
}

static void lay_over(struct yaml_doc *doc, struct piece text)
{
    struct yaml_doc template = {0};
    struct error e;
    if (!yaml_parse(text.text, text.len, "template", &template, &e) &&
        json_is_object(template.root) && json_is_object(doc->root))
        template_apply(doc->root, template.root);
    yaml_doc_free(&template);
}

static void use(json_t *config)
{
    json_t *hparams = NULL, *trainer = NULL;
    struct error e;
    if (!expconf_const_hparams(config, &hparams, &e))
        expconf_resolve_trainer(config, hparams, &trainer, &e);
    json_decref(hparams);
    json_decref(trainer);
}

static void check_again(const json_t *config)
{
    struct yaml_doc again = {0};
    struct error e;
    char *text = json_text(config);
    if (expconf_parse(text, strlen(text), "again", &again, &e)) {
        fprintf(stderr, "refused: %s\n%s\n", e.text, text);
        abort();
    }
    char *same = json_text(again.root);
    if (strcmp(text, same)) {
        fprintf(stderr, "was     %s\nbecame  %s\n", text, same);
        abort();
    }
    free(same);
    free(text);
    yaml_doc_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct piece all = {(const char *)data, size}, file, values = {0}, template = {0};
    struct yaml_doc doc = {0};
    struct error e;
    piece_next(&all, "\n%%\n", &file);
    bool has_values = piece_next(&all, "\n%%\n", &values);
    bool has_template = piece_next(&all, "\n%%\n", &template);
    json_t *storage = json_pack("{s:s, s:s, s:i}", "type", "directory", "container_path", "/c",
                                "save_trial_best", 2);
    char *text = piece_copy(file);
    int err = yaml_parse(text, file.len, "fuzz.yaml", &doc, &e);
    if (!err && has_values)
        set_values(&doc, values);
    if (!err && has_template)
        lay_over(&doc, template);
    err = err ? err : expconf_finish(&doc, &e);
    err = err ? err : expconf_merge_storage(doc.root, storage, &e);
    must(!err || (e.code == err && *e.text));
    if (!err) {
        use(doc.root);
        check_again(doc.root);
    }
    yaml_doc_free(&doc);
    json_decref(storage);
    free(text);
    return 0;
}
