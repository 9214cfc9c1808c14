// `muster-trainer pack`: packs a folder of class folders of pictures into one file for training.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/os/file.h"
#include "base/rng.h"
#include "trainer/commands/commands.h"
#include "trainer/data/dir_listing.h"
#include "trainer/data/packed.h"
#include "trainer/data/picture.h"

#define PACK_ORDER UINT64_C(0x7061636b) // key of the order in which images are written

enum { REDRAW_US = 100000 };

struct image_packer {
    const char *folder, *out, *size;
    long long channels;
    bool skip_broken, terminal;
    struct packed_shape shape;   // height 0: take the shape of the first picture
    struct dir_listing classes;  // names of the class folders, sorted
    struct dir_listing pictures; // "class/name", class by class, sorted
    int64_t *labels;             // [pictures]
    int64_t other_files, broken; // other_files: not pictures by name; broken: left out
    struct packed_writer writer;
    uint8_t *pixels; // [shape]
    int64_t drawn;   // when the progress was drawn, monotonic microseconds
};

// --- listing the folder --------------------------------------------------------------------------

static bool is_folder(const char *folder, const char *name)
{
    struct stat st;
    char *path = path_join(folder, name);
    bool is = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return is;
}

static bool is_picture(const char *name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".pnm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcasecmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static int list_class(struct image_packer *p, const char *name, struct error *e)
{
    char *path = path_join(p->folder, name);
    struct dir_listing files;
    size_t before = p->pictures.count;
    int rc = dir_listing_read(path, "*", &files, e);
    for (size_t i = 0; i < files.count; i++)
        if (is_picture(files.names[i]))
            dir_listing_add(&p->pictures, path_join(name, files.names[i]));
        else
            p->other_files++;
    size_t count = p->pictures.count;
    p->labels = xrealloc(p->labels, (count + 1) * sizeof *p->labels);
    for (size_t i = before; i < count; i++)
        p->labels[i] = (int64_t)p->classes.count;
    if (!rc && count == before)
        rc = error_set(e, ERR_INVALID, "%s: no pictures (.png, .jpg, .jpeg, .pgm, .ppm, .pnm)",
                       path);
    dir_listing_free(&files);
    free(path);
    return rc;
}

static int list_classes(struct image_packer *p, struct error *e)
{
    struct dir_listing all;
    int rc = dir_listing_read(p->folder, "*", &all, e);
    for (size_t i = 0; i < all.count && !rc; i++) {
        if (!is_folder(p->folder, all.names[i])) {
            p->other_files++;
            continue;
        }
        rc = list_class(p, all.names[i], e);
        dir_listing_add(&p->classes, xstrdup(all.names[i]));
    }
    if (!rc && !p->classes.count)
        rc = error_set(
            e, ERR_INVALID,
            "%s contains no folders; put the pictures of each class into a folder of its own",
            p->folder);
    dir_listing_free(&all);
    return rc;
}

// --- packing -------------------------------------------------------------------------------------

static void draw_progress(struct image_packer *p, size_t done)
{
    int64_t now = clock_mono_us();
    if (!p->terminal || now - p->drawn < REDRAW_US)
        return;
    p->drawn = now;
    printf("\r\033[K%3zu %%  %zu of %zu pictures", done * 100 / p->pictures.count, done,
           p->pictures.count);
    fflush(stdout);
}

static void clear_progress(struct image_packer *p)
{
    if (p->drawn)
        fputs("\r\033[K", stdout);
    p->drawn = 0;
}

static int read_picture(const struct image_packer *p, size_t i, struct picture *out,
                        struct error *e)
{
    char *path = path_join(p->folder, p->pictures.names[i]);
    int rc = picture_read(path, out, e);
    free(path);
    return rc;
}

// Without --size all images get the size of the first picture that is not broken.
static int choose_shape(struct image_packer *p, struct error *e)
{
    struct picture picture;
    int rc = ERR_CORRUPT;
    p->shape.channels = p->channels;
    for (size_t i = 0; i < p->pictures.count && rc && !p->shape.height; i++) {
        rc = read_picture(p, i, &picture, e);
        if (rc && !p->skip_broken)
            return rc;
        if (!rc) {
            p->shape.height = picture.height;
            p->shape.width = picture.width;
            picture_free(&picture);
        }
    }
    if (!p->shape.height)
        return rc;
    if (p->shape.height > PACKED_SIDE_MAX || p->shape.width > PACKED_SIDE_MAX)
        return error_set(e, ERR_INVALID,
                         "%s has %lldx%lld pixels; choose a --size of at most %dx%d",
                         p->pictures.names[0], (long long)p->shape.height,
                         (long long)p->shape.width, PACKED_SIDE_MAX, PACKED_SIDE_MAX);
    return 0;
}

static int pack_one(struct image_packer *p, size_t i, struct error *e)
{
    struct picture picture;
    int rc = read_picture(p, i, &picture, e);
    if (rc == ERR_CORRUPT && p->skip_broken) {
        clear_progress(p);
        printf("left out: %s\n", e->text);
        p->broken++;
        return 0;
    }
    if (rc)
        return rc;
    picture_fit(&picture, p->shape.height, p->shape.width, p->shape.channels, p->pixels);
    picture_free(&picture);
    return packed_add(&p->writer, p->pixels, p->labels[i], e);
}

static int pack_all(struct image_packer *p, struct error *e)
{
    size_t count = p->pictures.count;
    p->pixels = xcalloc((size_t)(p->shape.height * p->shape.width), (size_t)p->shape.channels);
    int rc =
        packed_begin(&p->writer, p->out, &p->shape, p->classes.names, (int64_t)p->classes.count, e);
    for (size_t i = 0; i < count && !rc; i++) {
        draw_progress(p, i);
        rc = pack_one(p, (size_t)keyed_permutation(PACK_ORDER, count, i), e);
    }
    clear_progress(p);
    if (!rc && p->writer.count == 0)
        rc = error_set(e, ERR_CORRUPT, "%s: every picture is broken", p->folder);
    if (rc)
        packed_abort(&p->writer);
    else
        rc = packed_end(&p->writer, e);
    return rc;
}

static void print_result(const struct image_packer *p)
{
    printf("%s: %zu images of %lldx%lldx%lld in %zu classes\n", p->out,
           p->pictures.count - (size_t)p->broken, (long long)p->shape.height,
           (long long)p->shape.width, (long long)p->shape.channels, p->classes.count);
    if (p->broken)
        printf("left out: %lld broken pictures\n", (long long)p->broken);
    if (p->other_files)
        printf("left out: %lld other files\n", (long long)p->other_files);
}

static int pack_folder(struct image_packer *p, struct error *e)
{
    int rc = list_classes(p, e);
    if (!rc)
        rc = choose_shape(p, e);
    if (!rc)
        rc = pack_all(p, e);
    if (!rc)
        print_result(p);
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int read_size(struct image_packer *p, struct error *e)
{
    char *end = NULL;
    if (!p->size)
        return 0;
    p->shape.height = strtol(p->size, &end, 10);
    if (*end == 'x')
        p->shape.width = strtol(end + 1, &end, 10);
    if (*end || p->shape.height < 1 || p->shape.height > PACKED_SIDE_MAX || p->shape.width < 1 ||
        p->shape.width > PACKED_SIDE_MAX)
        return error_set(e, ERR_INVALID,
                         "--size must be HEIGHTxWIDTH, 1 to %d pixels each, not \"%s\"",
                         PACKED_SIDE_MAX, p->size);
    return 0;
}

static int check_arguments(struct image_packer *p, const char *const *words, struct error *e)
{
    if (p->channels != 1 && p->channels != 3)
        return error_set(e, ERR_INVALID, "--channels must be 1 (grey) or 3 (colour), not %lld",
                         p->channels);
    p->folder = words[0];
    p->out = words[1];
    return read_size(p, e);
}

static const char help_head[] =
    "usage: muster-trainer pack FOLDER OUT [FLAGS]\n\n"
    "Packs a folder of pictures (PNG, JPEG, PNM) for `data: {format: images, path: OUT}`. Each\n"
    "folder in FOLDER is a class; classes are numbered by name. Pictures of another size are\n"
    "cropped around their centre and resized. They are written in a random order, which is always\n"
    "the same, so that validation_count takes some of every class.\n\n";
static const char help_tail[] = "\nexample:\n"
                                "  muster-trainer pack flowers/ flowers.images --size 64x64\n";

int command_pack(int argc, char **argv)
{
    struct image_packer p = {.channels = 3, .terminal = isatty(STDOUT_FILENO)};
    bool show_help = false;
    const struct flag flags[] = {
        {"size", 's', FLAG_STRING, &p.size, "HxW",
         "size of all images (default: that of the first)", 0, 0, NULL},
        {"channels", 'c', FLAG_INT, &p.channels, "N", "1: grey; 3: colour (default)", 0, 0, NULL},
        {"skip-broken", 0, FLAG_BOOL, &p.skip_broken, NULL,
         "leave out broken pictures instead of failing", 0, 0, NULL},
        COMMAND_HELP_FLAG(&show_help),
        {0},
    };
    const struct command_syntax syntax = {
        .flags = flags,
        .head = help_head,
        .tail = help_tail,
        .usage = "give a folder and a file to write: muster-trainer pack FOLDER OUT",
        .count = 2,
    };
    struct error e = {0};
    const char *rest[2];
    int err = command_parse(&syntax, argc, argv, &show_help, rest, &e);
    if (!err && !show_help)
        err = check_arguments(&p, rest, &e);
    if (!err && !show_help)
        err = pack_folder(&p, &e);
    dir_listing_free(&p.classes);
    dir_listing_free(&p.pictures);
    free(p.labels);
    free(p.pixels);
    return err ? command_failed("pack", &e) : 0;
}
