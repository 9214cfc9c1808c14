// Sends the e-mails of the outbox (alerts of the cluster) by SMTP, with a thread of its own.
//
// All e-mails that wait are sent as one, a few seconds after the first of them: when a switch fails
// and a hundred agents are lost, people get one e-mail with a hundred lines. A failed attempt is
// repeated after 1, 2, 4 .. 600 seconds, for a day. Where the server refuses an address, the others
// get the e-mail without it. The master may die between the server's answer and the commit; then
// the e-mail is sent again.
//
// smtps:// is TLS from the first byte. With smtp:// the connection changes to TLS if the server
// offers it (STARTTLS); with a password it must.
#ifndef MUSTER_MASTER_NOTIFY_MAIL_H
#define MUSTER_MASTER_NOTIFY_MAIL_H

#include "db/db.h"

enum {
    MAIL_GATHER_S = 5,         // from the first e-mail that waits to the attempt
    MAIL_TOGETHER = 200,       // that are sent as one
    MAIL_GIVE_UP_S = 24 * 3600 // after an e-mail was put into the outbox
};

struct mailer; // opaque

struct mailer_options {    // texts live as long as the mailer
    const char *url;       // smtp://HOST[:PORT] or smtps://HOST[:PORT]
    const char *from;      // an address
    const char *const *to; // addresses
    int to_count;
    const char *user, *password_file; // NULL: no login
    const char *cluster_name;         // begins the subject
};

// Checks the options. ERR_INVALID says what is wrong.
int mailer_check(const struct mailer_options *o, struct error *e);
// Also reads the password. ERR_NOT_FOUND, ERR_IO, ERR_INVALID.
int mailer_start(struct db *db, const struct mailer_options *o, struct mailer **out,
                 struct error *e);
void mailer_stop(struct mailer *m); // aborts an attempt; accepts NULL

// The e-mail as it is sent: headers and body, with CR LF at the end of each line. A subject or
// address cannot add headers: control characters become blanks. Heap string.
char *mail_compose(const struct mailer_options *o, const char *subject, const char *body,
                   int64_t wall_us, const char *message_id);

#endif
