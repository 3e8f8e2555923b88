/* tally batch: many prompts at once over one pool of pages; completions as JSON lines, in the order of the prompts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/clock.h"
#include "tools/batch.h"
#include "tools/commands.h"

typedef struct {
    session_options session;
    generation_options generation;
    const char *file, *output;
    int parallel, format;
    bool resume, prefix_cache, json, quiet;
} batch_options;

/* A completion that has ended, until its line is written. */
typedef struct {
    size_t number;
    completion c;
} ended;

typedef struct {
    const batch_options *o;
    session s;
    prompt_list prompts;
    ordered_lines out;
    scheduler *scheduler;
    step_audit audit;
    ended *ended; /* [n_ended]; those of one step */
    size_t n_ended, room_ended;
    bool out_of_memory;
    size_t next; /* prompt to submit */
    batch_summary summary;
    double last_shown;
} batch;

/* The one thing that a signal handler can do. */
static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

/* The first Ctrl-C asks for an end after this step; the second has its usual effect. */
static void interrupt_watch(void) {
    struct sigaction a = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

static bool is_end(void *user, int id) {
    return session_is_end(user, id);
}

/* A step is not the time to write: what has ended is kept until it is over. */
static void note_ended(void *user, const completion *c) {
    batch *b = user;
    if (b->n_ended == b->room_ended) {
        size_t room = b->room_ended == 0 ? 64 : 2 * b->room_ended;
        ended *larger = realloc(b->ended, room * sizeof *larger);
        if (larger == NULL) {
            b->out_of_memory = true;
            return;
        }
        b->ended = larger;
        b->room_ended = room;
    }
    ended *d = &b->ended[b->n_ended];
    *d = (ended){.number = (size_t)((const prompt *)c->user - b->prompts.items), .c = *c};
    d->c.ids = malloc((size_t)c->n_ids * sizeof *c->ids);
    if (d->c.ids == NULL) {
        b->out_of_memory = true;
        return;
    }
    memcpy(d->c.ids, c->ids, (size_t)c->n_ids * sizeof *c->ids);
    b->n_ended++;
}

static status put_line(batch *b, size_t number, int sample, char *line, error *e) {
    if (line == NULL) return error_set(e, ERR_MEMORY, "out of memory for a line of output");
    return ordered_put(&b->out, b->prompts.items[number].slot + (size_t)sample, line, e);
}

static status write_ended(batch *b, error *e) {
    status st = b->out_of_memory ? error_set(e, ERR_MEMORY, "out of memory for completions") : OK;
    for (size_t i = 0; i < b->n_ended; i++) {
        ended *d = &b->ended[i];
        b->summary.n_finished[d->c.finish]++;
        if (st == OK) st = put_line(b, d->number, d->c.sample, batch_line(&b->s, &b->prompts, d->number, &d->c), e);
        free(d->c.ids);
    }
    b->n_ended = 0;
    return st;
}

/* A prompt that cannot run is an answer too: an error in its place, and the others go on. */
static status refuse(batch *b, size_t number, const char *why, error *e) {
    status st = OK;
    b->summary.n_refused++;
    for (int i = 0; i < b->prompts.items[number].n_samples && st == OK; i++) {
        st = put_line(b, number, i, batch_line_refused(&b->prompts, number, i, why), e);
    }
    return st;
}

static status prompt_ids(const batch *b, const prompt *q, int **ids, size_t *n, error *e) {
    if (q->ids == NULL) {
        unsigned flags = TOKENIZE_ADD_SPECIAL | (b->o->generation.parse_special ? TOKENIZE_PARSE_SPECIAL : 0u);
        return session_prompt(&b->s, NULL, q->text, q->n_bytes, flags, ids, n, e);
    }
    *n = json_array_size(q->ids);
    *ids = malloc((*n + 1) * sizeof **ids);
    if (*ids == NULL) return error_set(e, ERR_MEMORY, "out of memory for a prompt");
    for (size_t i = 0; i < *n; i++) (*ids)[i] = (int)json_integer_value(json_array_get(q->ids, i));
    return OK;
}

static status submit(batch *b, size_t number, error *e) {
    prompt *q = &b->prompts.items[number];
    int *ids = NULL;
    size_t n = 0;
    error why = {0};
    status st = prompt_ids(b, q, &ids, &n, &why);
    if (st == OK && n > 1u << 30) st = error_set(&why, ERR_LIMIT, "a prompt of %zu tokens is longer than any context", n);
    if (st == OK) {
        request r = {.ids = ids,
                     .n_ids = (int)n,
                     .max_new = q->n_predict,
                     .n_samples = q->n_samples,
                     .sampling = q->sampling,
                     .seed = q->seed,
                     .user = q};
        st = scheduler_submit(b->scheduler, &r, &why);
    }
    free(ids);
    if (st == ERR_MEMORY) return error_set(e, ERR_MEMORY, "%s", why.message);
    return st == OK ? OK : refuse(b, number, why.message, e);
}

static bool is_made(const batch *b, const prompt *q) {
    for (int i = 0; i < q->n_samples; i++) {
        if (!b->out.made[q->slot + (size_t)i]) return false;
    }
    return true;
}

/* Keeps as many waiting as may run, and no more: their tokens take memory. */
static status feed(batch *b, error *e) {
    status st = OK;
    while (b->next < b->prompts.n && scheduler_statistics(b->scheduler)->n_waiting < b->o->parallel && st == OK) {
        size_t number = b->next++;
        if (!is_made(b, &b->prompts.items[number])) st = submit(b, number, e);
    }
    return st;
}

static void show_progress(batch *b, bool over) {
    if (b->o->quiet || !isatty(STDERR_FILENO)) return;
    double now = clock_seconds();
    if (!over && now - b->last_shown < 0.1) return;
    b->last_shown = now;
    const scheduler_stats *s = scheduler_statistics(b->scheduler);
    if (over) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r%zu of %zu done, %d running, %.0f tokens/s\033[K", b->out.n_made, b->out.n, s->n_running,
                s->seconds > 0 ? (double)s->n_generated / s->seconds : 0);
    }
    fflush(stderr);
}

static status batch_loop(batch *b, error *e) {
    interrupt_watch();
    for (;;) {
        status st = feed(b, e);
        if (st == OK && (interrupted || !scheduler_busy(b->scheduler))) return OK;
        if (st == OK) st = scheduler_step(b->scheduler, e);
        if (st == OK) st = write_ended(b, e);
        if (st != OK) return st;
        show_progress(b, false);
    }
}

static status batch_open(batch *b, error *e) {
    const batch_options *o = b->o;
    status st = prompts_read(&b->prompts, o->file, (prompts_format)o->format, &o->generation, o->session.seed, e);
    if (st != OK) return st;
    st = session_open(&b->s, &o->session, e);
    if (st != OK) return st;
    b->audit.config = &b->s.model->config;
    engine_observe(b->s.engine, audit_observe, &b->audit);
    scheduler_options so;
    scheduler_options_init(&so);
    so.prefix_cache = o->prefix_cache;
    so.n_allowed = session_n_tokens(&b->s);
    so.is_end = is_end;
    so.is_end_user = &b->s;
    st = scheduler_create(&b->scheduler, b->s.engine, &so, note_ended, b, e);
    if (st != OK) return st;
    st = ordered_open(&b->out, o->output, b->prompts.n_slots, o->resume, batch_line_number, &b->prompts, e);
    b->summary.n_resumed = b->out.n_made;
    return st;
}

/* Says what was done, and where it stopped. Returns the exit status. */
static int batch_conclude(batch *b) {
    batch_summary *s = &b->summary;
    s->session = &b->s;
    s->stats = scheduler_statistics(b->scheduler);
    s->audit = &b->audit;
    s->memory = batch_memory_use(&b->s, b->scheduler, &b->prompts);
    s->n_prompts = b->prompts.n;
    s->n_lines = b->out.n;
    s->n_made = b->out.n_made;
    if (b->o->json) {
        summary_json(s, stderr);
    } else if (!b->o->quiet) {
        summary_print(s, stderr);
    }
    if (b->out.n_made < b->out.n) {
        size_t i = 0;
        while (b->prompts.items[i].slot + (size_t)b->prompts.items[i].n_samples <= b->out.n_written) i++;
        fprintf(stderr, "tally: stopped at prompt %zu of %zu (line %d of %s): %zu of %zu completions are written%s\n", i + 1,
                b->prompts.n, b->prompts.items[i].line, b->o->file, b->out.n_made, b->out.n,
                b->o->output != NULL ? " (--resume goes on)" : "");
        return 130;
    }
    return s->n_refused > 0 || s->n_finished[FINISH_FAILED] > 0 || b->audit.n_mismatches > 0 ? 1 : 0;
}

static void batch_close(batch *b) {
    scheduler_free(b->scheduler);
    free(b->ended);
    session_close(&b->s);
    prompts_free(&b->prompts);
}

static int batch_main(batch_options *o) {
    error e = {0}, closing = {0};
    batch b = {.o = o};
    status st = generation_settle(&o->generation, &e);
    if (st != OK) return tool_usage("%s", e.message);
    if (o->file == NULL) return tool_usage("prompts are needed: -f FILE (one a line, or .jsonl; - is standard input)");
    if (o->resume && o->output == NULL) return tool_usage("--resume needs the file to go on with: -o FILE");
    if (o->parallel == 0) o->parallel = o->generation.samples > 8 ? o->generation.samples : 8;
    o->session.max_sequences = o->parallel;
    st = batch_open(&b, &e);
    if (st == OK) st = batch_loop(&b, &e);
    int exit_status = 1;
    if (b.scheduler != NULL) show_progress(&b, true);
    if (st == OK) exit_status = batch_conclude(&b);
    if (st != OK) exit_status = tool_fail(&e);
    if (ordered_close(&b.out, &closing) != OK && st == OK) exit_status = tool_fail(&closing);
    batch_close(&b);
    return exit_status;
}

int cmd_batch(int argc, char **argv) {
    batch_options o = {.prefix_cache = true};
    session_options_init(&o.session);
    generation_init(&o.generation);
    option rows[SESSION_ROWS + GENERATION_ROWS + 12];
    size_t n = session_option_rows(&o.session, rows);
    n += generation_option_rows(&o.generation, rows + n);
    const option mine[] = {
        {"file", 'f', OPTION_TEXT, &o.file, "FILE", "the prompts: one a line, or one JSON object (- is standard input)", 0, 0},
        {"format", 0, OPTION_CHOICE, &o.format, "auto|text|jsonl", "of that file (auto: by its name)", 0, 0},
        {"output", 'o', OPTION_TEXT, &o.output, "FILE", "where completions go (standard output)", 0, 0},
        {"parallel", 0, OPTION_INT, &o.parallel, "B", "most sequences at once (8)", 1, 65536},
        {"resume", 0, OPTION_FLAG, &o.resume, NULL, "go on with what -o holds: only what is missing is made", 0, 0},
        {"prefix-cache", 0, OPTION_FLAG, &o.prefix_cache, NULL,
         "share pages of prompts that begin alike (default; --no-prefix-cache)", 0, 0},
        {"quiet", 'q', OPTION_FLAG, &o.quiet, NULL, "no progress, no summary", 0, 0},
        {"json", 0, OPTION_FLAG, &o.json, NULL, "print the summary, on stderr, as one JSON object", 0, 0},
    };
    memcpy(rows + n, mine, sizeof mine);
    const command help = {
        "batch",
        "-m MODEL -f PROMPTS [options]",
        "Completes many prompts at once: sequences join and leave between steps, over one pool of pages. Writes one JSON "
        "object\na line, in the order of the prompts; what it came to goes to stderr. Ctrl-C ends it after the step.",
        "tally batch -m models/level21.pt -f sums.txt --parallel 64 -o answers.jsonl",
        rows,
        n + sizeof mine / sizeof *mine};
    int rc = session_options_parse(&o.session, &help, argc, argv);
    return rc >= 0 ? rc : batch_main(&o);
}
