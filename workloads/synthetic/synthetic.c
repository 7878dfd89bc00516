/*
 * A program whose behaviour is given by options, so that a generator can make many different programs.
 *
 * Each thread has `--size` private bytes, and all of them share `--shared` bytes. In an iteration a thread makes
 * `--accesses` accesses, in bursts of 64 to the same data. Options say which bursts go to shared data, which write,
 * which are inside of a critical section, and how many accesses are between two barriers.
 *
 * Load on the machine and effect of placement: as the options say.
 *
 * - `--access`: `sequential` accesses, one every `--stride` bytes, which prefetchers follow and which are bound by
 *   bandwidth; `gather`, anywhere in the data, many at once; `chase`, each address comes from the access before, in
 *   `--chains` independent chains, and the latency of memory decides.
 * - `--pattern` of the shared data: `private`, it is not used; `read`, all threads read all of it; `neighbours`, a
 *   thread writes its own part and reads the parts of both neighbours; `pipeline`, it reads the part that the previous
 *   thread wrote; `random`, all threads read and write all of it.
 * - `--touch`: first touch places data on the node of the thread that uses it (`own`) or in turn on the nodes of all
 *   threads (`spread`); with `--init serial` all of it is on the node of the first thread.
 * - `--operations`: multiply-adds that follow an access and do not depend on it.
 * - `--imbalance`: the last thread makes this much more accesses than the mean, and the first as much less.
 *
 * Method: the data of a thread are nodes of 64 bytes. In `chase`, the first word of a node is the number of the next
 * one. The nodes form one cycle in steps of about 0.62 of their number, so that no prefetcher follows it. All other
 * words are products of their position. A write stores the value that is there already, so threads may write the same
 * words in any order, and the work is the same in each iteration.
 *
 * Check: the sum of what each thread read, wrote and computed, which is computed again without memory, and all data.
 */
#include "../workload.h"

#include "../chain.h"

enum pattern { PRIVATE, READ, NEIGHBOURS, PIPELINE, RANDOM };
enum access { SEQUENTIAL, GATHER, CHASE };
enum touch { OWN, SPREAD };

static const char *const patterns[] = {"private", "read", "neighbours", "pipeline", "random", NULL};
static const char *const kinds[] = {"sequential", "gather", "chase", NULL};
static const char *const touches[] = {"own", "spread", NULL};

enum own_option {
    SHARED, PATTERN, TO_SHARED, WRITES, ACCESS, STRIDE, CHAINS, OPERATIONS, ACCESSES, BETWEEN, IMBALANCE, CRITICAL,
    TOUCH
};

#define NODE_BYTES UINT64_C(64)
#define NODE_WORDS (NODE_BYTES / sizeof(uint64_t))
#define PAGE_NODES (4096 / NODE_BYTES)
#define BURST UINT64_C(64)
#define PERCENT UINT64_C(100)

static const struct workload_option options[] = {
    [SHARED] = {"shared", "bytes that all threads share", NULL, 64, UINT64_C(1) << 40, UINT64_C(1) << 20},
    [PATTERN] = {"pattern", "who uses which part of the shared bytes", patterns, 0, 0, 0},
    [TO_SHARED] = {"to-shared", "percent of the accesses that go to shared bytes", NULL, 0, PERCENT, 50},
    [WRITES] = {"writes", "percent of the accesses that write", NULL, 0, PERCENT, 25},
    [ACCESS] = {"access", "the order of accesses", kinds, 0, 0, 0},
    [STRIDE] = {"stride", "bytes between sequential accesses, a multiple of 8", NULL, 8, 1 << 16, 8},
    [CHAINS] = {"chains", "independent chains of a chase: 1, 2, 4 or 8", NULL, 1, 8, 1},
    [OPERATIONS] = {"operations", "multiply-adds an access", NULL, 0, 1000, 1},
    [ACCESSES] = {"accesses", "accesses of a thread in an iteration", NULL, BURST, UINT64_C(1) << 40, 1 << 16},
    [BETWEEN] = {"between", "accesses between two barriers", NULL, BURST, UINT64_C(1) << 40, UINT64_C(1) << 40},
    [IMBALANCE] = {"imbalance", "percent that the last thread has more than the mean", NULL, 0, PERCENT, 0},
    [CRITICAL] = {"critical", "percent of the bursts that are inside of a critical section", NULL, 0, PERCENT, 0},
    [TOUCH] = {"touch", "who touches the data of a thread first", touches, 0, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};

#define MOST_CHAINS 8

static const struct workload synthetic = {
    .name = "synthetic",
    .summary = "accesses to memory and computing as options say",
    .size_unit = "bytes",
    .size_meaning = "the data of a thread; a multiple of 64",
    .size = UINT64_C(1) << 20,
    .smallest_size = NODE_BYTES,
    .iterations = 100,
    .options = options,
};

/* Data that is used as one: of one thread, a part of the shared data, or all of it. */
struct part {
    uint64_t *words;
    uint64_t nodes;
    uint64_t step; /* of a chase, from node to node; it has no common divisor with the number of nodes */
};

/* The position of a thread in a part. */
struct walk {
    struct part part;
    uint64_t next, lap;       /* the word of the next sequential access, and of the first one since the start */
    uint64_t drawn;           /* of a gather */
    uint64_t at[MOST_CHAINS]; /* the nodes of a chase */
};

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct part part_of(uint64_t *words, uint64_t nodes)
{
    uint64_t step = (uint64_t)(0.6180339887 * (double)nodes);
    while (divisor(step, nodes) != 1)
        step++;
    return (struct part){words, nodes, step};
}

static inline uint64_t successor(const struct part *part, uint64_t node)
{
    const uint64_t next = node + part->step;
    return next < part->nodes ? next : next - part->nodes;
}

/* The content of all words but those that lead to the next node. */
static inline uint64_t value(uint64_t word)
{
    return word * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t content(const struct part *part, enum access access, uint64_t word)
{
    return access == CHASE && word % NODE_WORDS == 0 ? successor(part, word / NODE_WORDS) : value(word);
}

static struct walk walk_of(struct part part, uint64_t thread)
{
    struct walk walk = {.part = part, .drawn = value(thread + 1)};
    for (uint64_t chain = 0; chain < MOST_CHAINS; chain++)
        walk.at[chain] = value(thread * MOST_CHAINS + chain + 1) % part.nodes;
    return walk;
}

/*
 * The bursts. Each returns the sum of the words that it read or wrote. With `real` false it does the same without
 * memory. Most arguments after `walk` are constants of the caller, so the compiler makes a loop for each.
 */
#define ALWAYS __attribute__((always_inline)) static inline

__extension__ typedef unsigned __int128 wide;

ALWAYS uint64_t touch_word(const struct walk *walk, uint64_t word, bool writes, bool real)
{
    uint64_t *const words = walk->part.words;
    const uint64_t is = value(word);
    if (real && writes)
        __atomic_store_n(&words[word], is, __ATOMIC_RELAXED);
    return real && !writes ? __atomic_load_n(&words[word], __ATOMIC_RELAXED) : is;
}

ALWAYS uint64_t sequential(struct walk *walk, uint64_t stride, bool writes, bool real)
{
    const uint64_t words = walk->part.nodes * NODE_WORDS;
    uint64_t sum = 0, next = walk->next;
    for (uint64_t i = 0; i < BURST; i++) {
        sum += touch_word(walk, next, writes, real);
        next += stride;
        if (next >= words) {
            walk->lap += NODE_WORDS; /* the nodes that were passed over */
            if (walk->lap >= stride || walk->lap >= words)
                walk->lap = 0;
            next = walk->lap;
        }
    }
    walk->next = next;
    return sum;
}

ALWAYS uint64_t gather(struct walk *walk, bool writes, bool real)
{
    const uint64_t words = walk->part.nodes * NODE_WORDS;
    uint64_t sum = 0, drawn = walk->drawn;
    for (uint64_t i = 0; i < BURST; i++) {
        drawn = drawn * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
        sum += touch_word(walk, (uint64_t)((wide)drawn * words >> 64), writes, real);
    }
    walk->drawn = drawn;
    return sum;
}

/* Chains are in registers for the whole burst, so that each access depends on one before it and on nothing else. */
ALWAYS uint64_t chase(struct walk *walk, uint64_t chains, bool writes, bool real)
{
    uint64_t sum = 0, at[MOST_CHAINS];
    for (uint64_t chain = 0; chain < chains; chain++)
        at[chain] = walk->at[chain];
    for (uint64_t i = 0; i < BURST / chains; i++) {
#pragma GCC unroll 8
        for (uint64_t chain = 0; chain < chains; chain++) {
            uint64_t *const node = &walk->part.words[at[chain] * NODE_WORDS];
            if (writes) {
                const uint64_t word = at[chain] * NODE_WORDS + 1;
                sum += value(word);
                if (real)
                    __atomic_store_n(&node[1], value(word), __ATOMIC_RELAXED);
            }
            at[chain] = real ? __atomic_load_n(node, __ATOMIC_RELAXED) : successor(&walk->part, at[chain]);
            sum += at[chain];
        }
    }
    for (uint64_t chain = 0; chain < chains; chain++)
        walk->at[chain] = at[chain];
    return sum;
}

ALWAYS uint64_t burst(struct walk *walk, const struct workload_run *run, bool writes, bool real)
{
    switch (run->own[ACCESS]) {
    case SEQUENTIAL:
        return sequential(walk, run->own[STRIDE] / sizeof(uint64_t), writes, real);
    case GATHER:
        return gather(walk, writes, real);
    default:
        switch (run->own[CHAINS]) {
        case 1:
            return chase(walk, 1, writes, real);
        case 2:
            return chase(walk, 2, writes, real);
        case 4:
            return chase(walk, 4, writes, real);
        default:
            return chase(walk, 8, writes, real);
        }
    }
}

/* Functions of their own, so that the loops have all registers and access nothing but the data. */
#define SEPARATE __attribute__((noinline)) static

SEPARATE uint64_t read_burst(struct walk *walk, const struct workload_run *run)
{
    return burst(walk, run, false, true);
}

SEPARATE uint64_t write_burst(struct walk *walk, const struct workload_run *run)
{
    return burst(walk, run, true, true);
}

/* The result of read_burst() or write_burst(), without memory. */
SEPARATE uint64_t expected_burst(struct walk *walk, const struct workload_run *run, bool writes)
{
    return writes ? burst(walk, run, true, false) : burst(walk, run, false, false);
}

/* All data. */
struct data {
    uint64_t *own, *shared;
    uint64_t own_nodes, shared_nodes; /* of one thread, and of all */
};

static struct part own_part(const struct data *data, uint64_t thread)
{
    return part_of(data->own + thread * data->own_nodes * NODE_WORDS, data->own_nodes);
}

/* The shared data of one of several threads; of the first one alone, all of it. Each part has at least one node. */
static struct part shared_part(const struct data *data, uint64_t thread, uint64_t threads)
{
    const uint64_t each = data->shared_nodes / threads, begin = each ? each * thread : thread % data->shared_nodes;
    return part_of(data->shared + begin * NODE_WORDS, each ? each : 1);
}

/* Whether all threads use all of the shared data. */
static bool is_whole(const struct workload_run *run)
{
    return run->own[PATTERN] == READ || run->own[PATTERN] == RANDOM;
}

/* The walks of a thread: its own data, the two parts of shared data that it reads in turn, and the one it writes. */
enum { MINE, FROM, OTHER_FROM, TO, WALKS };

static void make_walks(struct walk *walks, const struct workload_run *run, const struct data *data, uint64_t thread)
{
    const uint64_t threads = (uint64_t)run->threads;
    const uint64_t before = (thread + threads - 1) % threads, after = (thread + 1) % threads;
    walks[MINE] = walk_of(own_part(data, thread), thread);
    if (is_whole(run)) {
        walks[FROM] = walk_of(shared_part(data, 0, 1), thread);
        /* Threads begin at different places. */
        walks[FROM].next = data->shared_nodes * thread / threads * NODE_WORDS;
        return;
    }
    walks[FROM] = walk_of(shared_part(data, before, threads), thread);
    walks[OTHER_FROM] = walk_of(shared_part(data, after, threads), thread);
    walks[TO] = walk_of(shared_part(data, thread, threads), thread);
}

/* The walk of the next burst to shared data. */
static inline struct walk *shared_walk(struct walk *walks, enum pattern pattern, uint64_t number, bool writes)
{
    if (pattern == READ || pattern == RANDOM)
        return &walks[FROM];
    if (writes)
        return &walks[TO];
    return &walks[pattern == NEIGHBOURS && number % 2 ? OTHER_FROM : FROM];
}

/* Says for the n-th time whether it is one of `percent` of a hundred, spread evenly. */
static inline bool is_due(uint64_t n, uint64_t percent)
{
    return (n + 1) * percent / PERCENT > n * percent / PERCENT;
}

/* The bursts of a thread in an iteration, at least one: more for later threads. */
static uint64_t bursts_of(const struct workload_run *run, uint64_t thread)
{
    const uint64_t threads = (uint64_t)run->threads;
    const double late = threads > 1 ? 2.0 * (double)thread / (double)(threads - 1) - 1 : 0;
    const double accesses = (double)run->own[ACCESSES] * (1 + 0.01 * (double)run->own[IMBALANCE] * late);
    const uint64_t bursts = (uint64_t)(accesses / (double)BURST);
    return bursts > 0 ? bursts : 1;
}

/*
 * An iteration of one thread; returns its sum. All threads come to the same number of barriers, and between two of
 * them each has the same share of its bursts. With `real` false it does the same without memory and other threads.
 */
ALWAYS uint64_t work(const struct workload_run *run, const struct data *data, uint64_t thread, bool real)
{
    const enum pattern pattern = run->own[PATTERN];
    const uint64_t all = bursts_of(run, thread), between = run->own[BETWEEN];
    const uint64_t phases = (run->own[ACCESSES] + between - 1) / between;
    const uint64_t to_shared = pattern == PRIVATE ? 0 : run->own[TO_SHARED];
    struct walk walks[WALKS];
    make_walks(walks, run, data, thread);
    uint64_t sum = 0, done = 0, shared_done = 0;
    for (uint64_t phase = 0; phase < phases; phase++) {
        for (const uint64_t end = all * (phase + 1) / phases; done < end; done++) {
            const bool shared = is_due(done, to_shared);
            const uint64_t number = shared ? shared_done++ : done - shared_done;
            const bool writes = is_due(number, run->own[WRITES]) && !(shared && pattern == READ);
            struct walk *const walk = shared ? shared_walk(walks, pattern, number, writes) : &walks[MINE];
            if (!real) {
                sum += expected_burst(walk, run, writes);
            } else if (is_due(done, run->own[CRITICAL])) {
#pragma omp critical
                sum += writes ? write_burst(walk, run) : read_burst(walk, run);
            } else {
                sum += writes ? write_burst(walk, run) : read_burst(walk, run);
            }
            sum += chain_run(done, run->own[OPERATIONS] * BURST / 4);
        }
        if (real && phase + 1 < phases) {
#pragma omp barrier
        }
    }
    return sum;
}

/* Fills the nodes of a part that are the thread's: all if it owns the part, or with `in_turn` some of its pages. */
static void fill_part(const struct workload_run *run, struct part part, uint64_t thread, bool in_turn, bool owns)
{
    for (uint64_t node = 0; node < part.nodes; node++)
        if (in_turn ? node / PAGE_NODES % (uint64_t)run->threads == thread : owns)
            for (uint64_t word = node * NODE_WORDS; word < (node + 1) * NODE_WORDS; word++)
                part.words[word] = content(&part, run->own[ACCESS], word);
}

static void fill(const struct workload_run *run, const struct data *data, uint64_t thread)
{
    const uint64_t threads = (uint64_t)run->threads;
    const bool spread = run->own[TOUCH] == SPREAD;
    for (uint64_t owner = 0; owner < threads; owner++) {
        fill_part(run, own_part(data, owner), thread, spread, owner == thread);
        if (!is_whole(run))
            fill_part(run, shared_part(data, owner, threads), thread, spread, owner == thread);
    }
    if (is_whole(run))
        fill_part(run, shared_part(data, 0, 1), thread, true, false);
}

/* The number of wrong words of a part. */
static uint64_t wrong_in(const struct workload_run *run, struct part part)
{
    uint64_t wrong = 0;
    for (uint64_t word = 0; word < part.nodes * NODE_WORDS; word++)
        wrong += part.words[word] != content(&part, run->own[ACCESS], word);
    return wrong;
}

static void check_options(struct workload_run *run)
{
    const uint64_t chains = run->own[CHAINS], stride = run->own[STRIDE];
    if ((chains & (chains - 1)) != 0)
        workload_usage_error(run->workload, "--chains %" PRIu64 ": not 1, 2, 4 or 8", chains);
    if (stride % sizeof(uint64_t) != 0)
        workload_usage_error(run->workload, "--stride %" PRIu64 ": not a multiple of 8", stride);
    run->size = run->size / NODE_BYTES * NODE_BYTES;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&synthetic, argc, argv);
    check_options(&run);
    const uint64_t threads = (uint64_t)run.threads;
    struct data data = {.own_nodes = run.size / NODE_BYTES, .shared_nodes = run.own[SHARED] / NODE_BYTES};
    if (run.size > UINT64_MAX / threads)
        workload_usage_error(&synthetic, "--size %" PRIu64 ": too large for %d threads", run.size, run.threads);
    data.own = workload_allocate(&run, threads * run.size);
    data.shared = workload_allocate(&run, data.shared_nodes * NODE_BYTES);

#pragma omp parallel
    fill(&run, &data, (uint64_t)omp_get_thread_num());

    uint64_t sum = 0;
    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel reduction(+ : sum)
        sum += work(&run, &data, (uint64_t)omp_get_thread_num(), true);
    }

    sum ^= run.corrupt;
    uint64_t expected = 0, wrong = 0, accesses = 0;
#pragma omp parallel reduction(+ : expected, wrong, accesses)
    {
        const uint64_t thread = (uint64_t)omp_get_thread_num();
        expected += run.iterations * work(&run, &data, thread, false);
        accesses += run.iterations * bursts_of(&run, thread) * BURST;
        wrong += wrong_in(&run, own_part(&data, thread));
        if (!is_whole(&run) || thread == 0)
            wrong += wrong_in(&run, is_whole(&run) ? shared_part(&data, 0, 1) : shared_part(&data, thread, threads));
    }
    if (wrong > 0)
        workload_wrong(&run, "%" PRIu64 " words of the data have changed", wrong);
    if (sum != expected)
        workload_wrong(&run, "the sum of all accesses is %" PRIu64 " and must be %" PRIu64, sum, expected);
    workload_report(&run, 1e-6 * (double)accesses, "million accesses", sum);
    free(data.own);
    free(data.shared);
    return EXIT_SUCCESS;
}
