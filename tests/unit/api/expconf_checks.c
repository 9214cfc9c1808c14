#include "tests/unit/api/expconf_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/config/expconf.h"

void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not hold \"%s\"", text, part);
}

void refused(const char *yaml, const char *expected)
{
    struct yaml_doc doc;
    struct error e;
    assert_int_equal(expconf_parse(yaml, strlen(yaml), "e.yaml", &doc, &e), ERR_INVALID);
    assert_contains(e.text, expected);
    assert_null(doc.root);
}

json_t *accepted(const char *yaml)
{
    struct yaml_doc doc;
    struct error e;
    if (expconf_parse(yaml, strlen(yaml), "e.yaml", &doc, &e))
        fail_msg("refused: %s", e.text);
    json_t *root = json_incref(doc.root);
    yaml_doc_free(&doc);
    return root;
}
