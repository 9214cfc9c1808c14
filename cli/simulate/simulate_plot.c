// Draws two panels over one time axis: slots in use, and waiting jobs. The lines have names and
// differ in dashes and in colour (Okabe and Ito's palette for colour-blind readers).
#include <math.h>
#include <string.h>

#include "cli/simulate/simulate.h"

enum {
    WIDTH = 960,
    LEFT = 72,
    RIGHT = 24,
    PLOT_WIDTH = WIDTH - LEFT - RIGHT,
    LEGEND_TOP = 58,
    LEGEND_STEP = 18,
    PANEL_HEIGHT = 210,
    PANEL_GAP = 64,
    POINTS_MAX = 400, // points of one line
};

static const struct {
    const char *colour, *dashes;
} styles[SIMULATE_RESULTS_MAX] = {
    {"#0072B2", ""},    {"#D55E00", "7 3"},  {"#009E73", "2 3"}, {"#CC79A7", "9 3 2 3"},
    {"#000000", "4 2"}, {"#E69F00", "12 4"}, {"#56B4E9", "1 2"}, {"#7A7A00", "9 2 2 2 2 2"}};

struct plot_panel {
    const char *title, *unit;
    double top;  // pixels
    double most; // value at the upper edge
    double (*value)(const struct simulate_bin *bin);
};

struct plot_axis {  // the time axis
    double seconds; // at the right edge
    double unit;    // seconds
    const char *unit_name;
};

static double slots_held(const struct simulate_bin *bin)
{
    return bin->held;
}

static double jobs_waiting(const struct simulate_bin *bin)
{
    return bin->gangs;
}

static void append_xml_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '&' ? "&amp;"
                                            : NULL;
        if (entity)
            buf_puts(out, entity);
        else if ((unsigned char)*text >= ' ')
            buf_append(out, text, 1);
    }
}

// Returns 1, 2 or 5 times a power of ten, so that at most `count` steps reach `most`.
static double round_step(double most, int count)
{
    double rough = most / count, power = pow(10, floor(log10(rough)));
    double factor = rough / power;
    return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

static struct plot_axis make_axis(const struct simulate_result *results, size_t count)
{
    struct plot_axis axis = {0};
    for (size_t i = 0; i < count; i++)
        axis.seconds = fmax(axis.seconds, results[i].figures.makespan);
    axis.seconds = fmax(axis.seconds, 1);
    bool is_days = axis.seconds > 3 * 86400.0, is_hours = axis.seconds > 3 * 3600.0;
    bool is_minutes = axis.seconds > 180;
    axis.unit = is_days ? 86400 : is_hours ? 3600 : is_minutes ? 60 : 1;
    axis.unit_name = is_days ? "days" : is_hours ? "hours" : is_minutes ? "minutes" : "seconds";
    return axis;
}

static double x_of(const struct plot_axis *axis, double seconds)
{
    return LEFT + PLOT_WIDTH * seconds / axis->seconds;
}

static double y_of(const struct plot_panel *p, double value)
{
    return p->top + PANEL_HEIGHT * (1 - value / p->most);
}

// --- parts of a panel ----------------------------------------------------------------------------

static void draw_time(const struct plot_panel *p, const struct plot_axis *axis, struct buf *out)
{
    double most = axis->seconds / axis->unit, step = round_step(most, 12);
    double bottom = p->top + PANEL_HEIGHT;
    for (int i = 0; i * step <= most * (1 + 1e-9); i++) {
        double x = x_of(axis, i * step * axis->unit);
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ececec\"/>"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
                   x, p->top, x, bottom, x, bottom + 17, i * step);
    }
    buf_printf(out,
               "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">%s since the first submission"
               "</text>\n",
               LEFT + PLOT_WIDTH / 2, bottom + 35, axis->unit_name);
}

static void draw_values(const struct plot_panel *p, struct buf *out)
{
    double step = round_step(p->most, 6);
    for (int i = 0; i * step <= p->most * (1 + 1e-9); i++) {
        double y = y_of(p, i * step);
        buf_printf(out,
                   "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ececec\"/>"
                   "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                   LEFT, y, LEFT + PLOT_WIDTH, y, LEFT - 7, y + 4, i * step);
    }
    buf_printf(out, "<text x=\"%d\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n", LEFT, p->top - 9,
               p->title);
    double middle = p->top + PANEL_HEIGHT / 2.0;
    buf_printf(out,
               "<text transform=\"translate(17 %.1f) rotate(-90)\" text-anchor=\"middle\">%s"
               "</text>\n",
               middle, p->unit);
}

// Averages neighbouring bins, so that a line has at most POINTS_MAX points.
static void draw_line(const struct plot_panel *p, const struct plot_axis *axis,
                      const struct simulate_result *r, size_t style, struct buf *out)
{
    const struct simulate_figures *f = &r->figures;
    size_t group = (f->bin_count + POINTS_MAX - 1) / POINTS_MAX;
    buf_printf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" points=\"",
               styles[style].colour);
    for (size_t i = 0; i < f->bin_count; i += group) {
        size_t end = i + group < f->bin_count ? i + group : f->bin_count;
        double sum = 0;
        for (size_t k = i; k < end; k++)
            sum += p->value(&f->bins[k]);
        double y = y_of(p, sum / (double)(end - i));
        double from = (double)i * f->bin_seconds, to = (double)end * f->bin_seconds;
        buf_printf(out, "%.1f,%.1f %.1f,%.1f ", x_of(axis, from), y,
                   x_of(axis, fmin(to, f->makespan)), y);
    }
    buf_printf(out, "\" stroke-dasharray=\"%s\"/>\n",
               *styles[style].dashes ? styles[style].dashes : "none");
}

static void draw_panel(const struct plot_panel *p, const struct plot_axis *axis,
                       const struct simulate_result *results, size_t count, struct buf *out)
{
    draw_time(p, axis, out);
    draw_values(p, out);
    for (size_t i = 0; i < count; i++)
        draw_line(p, axis, &results[i], i, out);
    buf_printf(out,
               "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" "
               "stroke=\"#666\"/>\n",
               LEFT, p->top, PLOT_WIDTH, PANEL_HEIGHT);
}

// --- whole plot
// -----------------------------------------------------------------------------------

static void draw_legend(const struct simulate_result *results, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct simulate_figures *f = &results[i].figures;
        int y = LEGEND_TOP + (int)i * LEGEND_STEP;
        buf_printf(out,
                   "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" "
                   "stroke-width=\"2.4\" stroke-dasharray=\"%s\"/><text x=\"%d\" y=\"%d\">",
                   LEFT, y - 4, LEFT + 44, y - 4, styles[i].colour,
                   *styles[i].dashes ? styles[i].dashes : "none", LEFT + 54, y);
        append_xml_text(out, results[i].label);
        buf_printf(out,
                   ": %lld slots, %.1f %% used while jobs were submitted, mean completion %.2f h"
                   "</text>\n",
                   (long long)f->slots, 100 * f->use_window, f->completion.mean / 3600);
    }
}

static double largest_value(const struct simulate_result *results, size_t count,
                            double (*value)(const struct simulate_bin *))
{
    double most = 1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < results[i].figures.bin_count; k++)
            most = fmax(most, value(&results[i].figures.bins[k]));
    return most;
}

void simulate_plot(const char *title, const struct simulate_result *results, size_t count,
                   struct buf *out)
{
    double top = LEGEND_TOP + (double)(count * LEGEND_STEP) + 26;
    struct plot_panel use = {"Slots in use", "slots", top, 1, slots_held};
    struct plot_panel queue = {"Jobs waiting", "jobs", top + PANEL_HEIGHT + PANEL_GAP, 1,
                               jobs_waiting};
    for (size_t i = 0; i < count; i++)
        use.most = fmax(use.most, 1.04 * (double)results[i].figures.slots);
    queue.most = 1.05 * largest_value(results, count, jobs_waiting);
    struct plot_axis axis = make_axis(results, count);
    int height = (int)queue.top + PANEL_HEIGHT + 48;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
               "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" "
               "fill=\"#222\" role=\"img\">\n<title>Use and queue of ",
               WIDTH, height, WIDTH, height);
    append_xml_text(out, title);
    buf_printf(out, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH, height);
    buf_printf(out, "<text x=\"%d\" y=\"28\" font-size=\"15\" font-weight=\"bold\">", LEFT);
    append_xml_text(out, strrchr(title, '/') ? strrchr(title, '/') + 1 : title);
    buf_puts(out, "</text>\n");
    draw_legend(results, count, out);
    draw_panel(&use, &axis, results, count, out);
    draw_panel(&queue, &axis, results, count, out);
    buf_puts(out, "</svg>\n");
}
