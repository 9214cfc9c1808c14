// E-mails of alerts: the message, and options that cannot work.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "master/notify/mail.h"

static const char *const people[] = {"ann@example.org", "bob@example.org"};
static const struct mailer_options good = {.url = "smtp://127.0.0.1:25",
                                           .from = "muster@example.org",
                                           .to = people,
                                           .to_count = 2,
                                           .cluster_name = "test"};

static void test_a_message(void **state)
{
    (void)state;
    char *text = mail_compose(&good, "AGENT_LOST a", "one\n.two\r\n", 1764000000LL * 1000000, "id");
    assert_string_equal(text, "Date: Mon, 24 Nov 2025 16:00:00 +0000\r\n"
                              "From: muster@example.org\r\n"
                              "To: ann@example.org,\r\n bob@example.org\r\n"
                              "Subject: AGENT_LOST a\r\n"
                              "Message-ID: <id@muster>\r\n"
                              "MIME-Version: 1.0\r\n"
                              "Content-Type: text/plain; charset=UTF-8\r\n"
                              "Content-Transfer-Encoding: 8bit\r\n"
                              "Auto-Submitted: auto-generated\r\n"
                              "\r\n"
                              "one\r\n.two\r\n\r\n");
    free(text);
}

static void test_a_subject_adds_no_header(void **state)
{
    (void)state;
    char *text = mail_compose(&good, "a\r\nBcc: eve@example.org\t!", "", 0, "id");
    assert_non_null(strstr(text, "\r\nSubject: a  Bcc: eve@example.org !\r\n"));
    assert_null(strstr(text, "\nBcc"));
    free(text);
    text = mail_compose(&good, "größer", "größer", 0, "id");
    assert_non_null(strstr(text, "\r\nSubject: =?UTF-8?B?Z3LDtsOfZXI=?=\r\n"));
    assert_non_null(strstr(text, "\r\n\r\ngrößer\r\n"));
    free(text);
}

static void test_many_people_need_many_lines(void **state)
{
    (void)state;
    enum { PEOPLE = 100 };
    const char *many[PEOPLE];
    struct mailer_options o = good;
    for (int i = 0; i < PEOPLE; i++)
        many[i] = "somebody@department.example.org";
    o.to = many;
    o.to_count = PEOPLE;
    char *text = mail_compose(&o, "a", "", 0, "id");
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 998);
    free(text);
}

static void refuse(struct mailer_options o, const char *part)
{
    struct error e = {0};
    assert_int_equal(mailer_check(&o, &e), ERR_INVALID);
    if (!strstr(e.text, part))
        fail_msg("\"%s\" does not name %s", e.text, part);
}

static void test_options(void **state)
{
    (void)state;
    static const char *const bad[] = {"ann@example.org", "bob"}, *const forged[] = {
                                                                     "a@b>\r\nRCPT TO:<c@d"};
    struct mailer_options o = good;
    struct error e;
    assert_int_equal(mailer_check(&good, &e), 0);
    static const char *const urls[] = {
        "http://example.org", "smtp://",         "smtp://x:0",   "smtp://x:70000", "smtp://x:",
        "smtp://x/a",         "smtp://x\r\nFOO", "smtp://[::1",  "smtp://[]",      "smtps://:25",
        "smtp://ann:pw@x",    "smtps://ann@x",   "smtp://x:25 ", "smtp://x?y",     "",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        o.url = urls[i];
        refuse(o, "--smtp-url");
    }
    static const char *const right[] = {"smtps://x", "smtp://x/", "smtp://[::1]:25",
                                        "smtp://10.0.0.1:587"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        o.url = right[i];
        assert_int_equal(mailer_check(&o, &e), 0);
    }
    o = good;
    o.to_count = 0;
    refuse(o, "--alert-mail");
    o = good;
    o.to = bad;
    refuse(o, "\"bob\"");
    o.to = forged;
    o.to_count = 1;
    refuse(o, "--alert-mail");
    o = good;
    o.from = "muster";
    refuse(o, "--smtp-from");
    o = good;
    o.user = "ann";
    refuse(o, "--smtp-password-file");
    o.password_file = "password";
    assert_int_equal(mailer_check(&o, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message),
        cmocka_unit_test(test_a_subject_adds_no_header),
        cmocka_unit_test(test_many_people_need_many_lines),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
