#include "cli/output/terminal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/os/file.h"
#include "base/printable.h"

enum { CHUNK = 4096, HELD_MAX = 4 }; // bytes escaped at a time; bytes of an incomplete character

struct screen {
    FILE *stream; // NULL: not a terminal
    int fd;
    size_t held;
    char holding[HELD_MAX];
};

// One filter each for stdout and stderr of the process.
static struct screen screens[] = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}};

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno != EINTR)
            return -1;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

// Returns the number of bytes at the end of data[0..len) that depend on the next bytes: a part of a
// character, or a carriage return, which is dropped before a line feed.
static size_t incomplete_tail(const char *data, size_t len)
{
    size_t most = len < HELD_MAX - 1 ? len : HELD_MAX - 1, taken;
    for (size_t n = 1; n <= most; n++) {
        const char *last = data + len - n;
        if ((n == 1 && *last == '\r') || ((unsigned char)*last >= 0xc0 &&
                                          printable_classify(last, n, &taken) == CHAR_INCOMPLETE))
            return n;
    }
    return 0;
}

static void append_escaped_lines(struct buf *out, const char *data, size_t len)
{
    for (const char *end = data + len, *next; data < end; data = next) {
        const char *back = memmem(data, (size_t)(end - data), "\r\n", 2);
        printable_append(out, data, (size_t)((back ? back : end) - data), "\n\t");
        next = back ? back + 1 : end;
    }
}

static int screen_put(struct screen *s, const char *data, size_t len, bool last)
{
    char text[HELD_MAX + CHUNK];
    struct buf out;
    memcpy(text, s->holding, s->held);
    memcpy(text + s->held, data, len);
    len += s->held;
    s->held = last ? 0 : incomplete_tail(text, len);
    memcpy(s->holding, text + len - s->held, s->held);
    buf_init(&out, sizeof(text) * PRINTABLE_ESCAPE_MAX);
    append_escaped_lines(&out, text, len - s->held);
    int err = write_all(s->fd, buf_str(&out), out.len);
    buf_free(&out);
    return err;
}

static ssize_t screen_write(void *cookie, const char *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        size_t part = len - done < CHUNK ? len - done : CHUNK;
        if (screen_put(cookie, data + done, part, false) != 0)
            return 0; // reports an error to stdio
        done += part;
    }
    return (ssize_t)len;
}

static FILE *screen_open(struct screen *s, FILE *plain, int buffering)
{
    const cookie_io_functions_t calls = {.write = screen_write};
    if (!isatty(s->fd))
        return plain;
    s->stream = fopencookie(s, "w", calls);
    if (!s->stream)
        return plain;
    setvbuf(s->stream, NULL, buffering, 0);
    return s->stream;
}

void terminal_begin(void)
{
    stdout = screen_open(&screens[0], stdout, _IOLBF);
    stderr = screen_open(&screens[1], stderr, _IONBF);
}

void terminal_end(void)
{
    for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++) {
        if (screens[i].stream) {
            fflush(screens[i].stream);
            screen_put(&screens[i], "", 0, true);
        }
    }
}

void terminal_control(FILE *to, const char *sequence)
{
    for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++) {
        if (screens[i].stream && screens[i].stream == to) {
            fflush(to);
            write_all(screens[i].fd, sequence, strlen(sequence));
        }
    }
}
