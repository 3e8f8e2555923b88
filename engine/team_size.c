#include "engine/team_size.h"

/* A run is long enough when its mean says something: some steps and a few milliseconds, which are a turn of the system's scheduler; long
 * steps are turns of their own. Its slowest step does not count: threads had to be woken, or something else came in between. */
enum { RUN_STEPS = 4, RUN_STEPS_MOST = 32, LONG_RUN_STEPS = 2 };
static const double RUN_SECONDS = 4e-3, LONG_RUN_SECONDS = 40e-3;

static const double TIE = 1.03;            /* as fast, for this purpose */
static const double CLEARLY_SLOWER = 1.25; /* fewer workers still would be slower yet; or: something has changed */
static const double SHARE = 1.0 / 64;      /* of the time, for trials */
static const double ALLOWANCE = 0.5;       /* seconds at the beginning */
enum { PAUSE_STEPS = 100 };

static int class_of(int n_rows) {
    if (n_rows <= 8) return n_rows - 1;
    int octave = 0, top = n_rows;
    for (; top >= 16; top >>= 1) octave++;
    int c = 8 + 4 * octave + (top - 8) / 2;
    return c < TEAM_SIZE_CLASSES ? c : TEAM_SIZE_CLASSES - 1;
}

static int count_of(int number, int n_most) {
    return number == 0 ? n_most : number == 1 ? n_most - 1 : n_most >> (number - 1);
}

/* n_most, n_most - 1, n_most / 2, ..., 1: how many different ones. */
static int n_counts(int n_most) {
    int n = 1;
    while (count_of(n - 1, n_most) > 1) n++;
    return n;
}

static int clamped(int number, int n_most) {
    int n = n_counts(n_most);
    return number < n ? number : n - 1;
}

int team_size_best(const team_size *t, int n_rows, int n_most) {
    return count_of(clamped(t->classes[class_of(n_rows)].best, n_most), n_most);
}

int team_size_next(const team_size *t, int n_rows, int n_most) {
    const team_class *c = &t->classes[class_of(n_rows)];
    return count_of(clamped(c->trying ? c->other : c->best, n_most), n_most);
}

/* What a trial of c->other may lose: the work of its run on the smaller of the two teams in place of the larger. */
static double loss_feared(const team_class *c, int n_rows, int n_most) {
    if (c->standing == 0) return 0;
    double a = count_of(clamped(c->best, n_most), n_most), b = count_of(clamped(c->other, n_most), n_most),
           step = c->standing * n_rows, n = RUN_SECONDS / step;
    n = n < RUN_STEPS ? RUN_STEPS : n > RUN_STEPS_MOST ? RUN_STEPS_MOST : n;
    if (step * LONG_RUN_STEPS >= LONG_RUN_SECONDS) n = LONG_RUN_STEPS;
    return n * step * (a > b ? a / b - 1 : b / a - 1);
}

static bool run_is_whole(const team_class *c) {
    return c->n >= RUN_STEPS_MOST || (c->n >= RUN_STEPS && c->seconds >= RUN_SECONDS) ||
           (c->n >= LONG_RUN_STEPS && c->seconds >= LONG_RUN_SECONDS);
}

/* The next count to try, from number `from` on; past the last there is a pause, and then the first again. */
static void other_choose(team_class *c, int from, int n) {
    if (from == c->best) from++;
    c->other = from;
    if (from < n) return;
    c->looked = true;
    c->pause = PAUSE_STEPS;
    if (c->credit > 0) c->credit = 0; /* the next look is to be earned */
    c->other = c->best == 0 ? 1 : 0;
}

static void trial_judge(team_class *c, double mean, int n_most) {
    bool fewer = c->other > c->best, wins = fewer ? mean <= c->standing * TIE : mean * TIE < c->standing;
    bool hopeless = fewer && mean > c->standing * CLEARLY_SLOWER;
    int tried = c->other;
    if (wins) {
        c->best = tried;
        c->standing = mean;
    }
    c->decided = c->standing;
    c->trying = false;
    other_choose(c, hopeless ? n_counts(n_most) : tried + 1, n_counts(n_most));
}

/* Does what is known of the best justify a trial? */
static bool trial_is_due(const team_class *c, int n_rows, int n_most) {
    if (c->looked && c->standing > c->decided * CLEARLY_SLOWER) return c->credit >= 0;
    return c->pause <= 0 && c->credit >= loss_feared(c, n_rows, n_most);
}

static void class_begin(team_class *c) {
    c->other = 1;
    c->credit = ALLOWANCE;
}

void team_size_record(team_size *t, int n_rows, int n_most, double seconds) {
    if (n_most == 1) return;
    team_class *c = &t->classes[class_of(n_rows)];
    double each = seconds / n_rows;
    if (c->other == c->best) class_begin(c);
    if (c->trying && each > c->standing) c->credit -= (each - c->standing) * n_rows;
    if (!c->trying && c->credit < loss_feared(c, n_rows, n_most)) c->credit += SHARE * seconds;
    if (c->pause > 0) c->pause--;
    c->n++;
    c->sum += each;
    c->seconds += seconds;
    if (each > c->slowest) c->slowest = each;
    if (!run_is_whole(c)) return;

    double mean = (c->sum - c->slowest) / (c->n - 1);
    c->n = 0;
    c->sum = c->slowest = c->seconds = 0;
    if (c->trying) {
        trial_judge(c, mean, n_most);
    } else {
        c->standing = mean;
        c->trying = trial_is_due(c, n_rows, n_most);
    }
}

bool team_size_settled(const team_size *t, int n_rows, int n_most) {
    const team_class *c = &t->classes[class_of(n_rows)];
    if (n_most == 1) return true;
    return c->looked || (c->standing > 0 && !c->trying && c->credit < loss_feared(c, n_rows, n_most));
}
