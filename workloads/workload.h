/*
 * Shared by the workloads: their options, their clock, and the line that each prints.
 *
 * A workload describes itself in a `struct workload`, reads its options with workload_options(), prepares its data,
 * and then works in iterations:
 *
 *     workload_start(&run);
 *     while (workload_next(&run)) {
 *         one parallel region, or the like
 *     }
 *
 * Afterwards it compares its result with the expected one. It either ends in workload_wrong() or prints its line with
 * workload_report().
 *
 * Exit statuses: 0, the result is correct; 1, it is wrong, or memory or a thread was not available; 2, the options are
 * not valid.
 *
 * WORKLOAD_CORRUPT=1 in the environment makes a workload change one bit of its result before the check. The check must
 * detect this; the test suite runs every workload in this way.
 *
 * Include it first: it enables functions of the C library that -std=c11 hides. Everything is `static inline`, because
 * each workload is a single translation unit.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for CPU_COUNT; clock_gettime and aligned_alloc come with it */
#endif

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* Alignment that keeps what two threads write apart: two 64-byte lines, as some processors fetch lines in pairs. */
#define WORKLOAD_LINE 128

enum { WORKLOAD_EXIT_WRONG = 1, WORKLOAD_EXIT_USAGE = 2 };

/* The most options that a workload may have of its own. */
#define WORKLOAD_OWN_OPTIONS 16

/* An option of one workload: a word of a list, or a whole number. */
struct workload_option {
    const char *name;          /* without the hyphens; NULL ends a list of options */
    const char *meaning;       /* for --help */
    const char *const *words;  /* its values, NULL at the end, the first is the default; NULL: a number */
    uint64_t least, most;      /* of a number */
    uint64_t value;            /* the default of a number */
};

/* What a workload is; constant. */
struct workload {
    const char *name;
    const char *summary;       /* one sentence for --help */
    const char *size_unit;     /* what --size counts: "bytes", "steps" ... */
    const char *size_meaning;  /* the meaning of the size, for --help */
    uint64_t size;             /* default */
    uint64_t smallest_size;    /* below this, --size is refused */
    uint64_t iterations;       /* default */
    const char *const *modes;  /* values of --mode, NULL at the end, the first is the default; NULL: no such option */
    const struct workload_option *options; /* its own, at most WORKLOAD_OWN_OPTIONS; NULL: none */
};

/* One run of a workload: its options and its progress. */
struct workload_run {
    const struct workload *workload;
    uint64_t size;             /* in size_unit; a workload that rounds it writes the rounded size back */
    uint64_t iteration_limit;  /* 0 where time limits the run */
    double seconds_limit;
    int threads;
    int mode;                  /* position in `modes` */
    uint64_t own[WORKLOAD_OWN_OPTIONS]; /* by option of `options`: the number, or the position of the word */
    bool serial_init;          /* the first thread touches all memory first, as a program does that reads its input */
    uint64_t corrupt;          /* 1 to change the result before the check, else 0 */
    uint64_t iterations;       /* begun so far */
    double started;            /* seconds on the monotonic clock */
    double seconds;            /* duration of the iterations; known once workload_next() has returned false */
};

static inline double workload_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints the error in the options on stderr, and ends the program. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void
workload_usage_error(const struct workload *workload, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", workload->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; %s --help lists the options\n", workload->name);
    va_end(arguments);
    exit(WORKLOAD_EXIT_USAGE);
}

/* Prints on stderr that the result is wrong, and the difference, and ends the program. */
__attribute__((noreturn, format(printf, 2, 3))) static inline void
workload_wrong(const struct workload_run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: wrong result: ", run->workload->name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(WORKLOAD_EXIT_WRONG);
}

/* The default number of threads: OMP_NUM_THREADS, else the number of allowed CPUs. */
static inline int workload_default_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return CPU_COUNT(&allowed);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
#endif
}

/* Reads a whole number from 1, with an optional suffix k, M or G (powers of 1024); 0 if `text` is not such a number. */
static inline uint64_t workload_number(const char *text)
{
    if (*text < '0' || *text > '9')
        return 0; /* strtoull would accept a sign and blanks */
    char *rest;
    errno = 0;
    uint64_t number = strtoull(text, &rest, 10);
    int shift = 0;
    if (*rest != '\0') {
        switch (*rest++) {
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        default:
            return 0;
        }
    }
    if (*rest != '\0' || errno != 0 || number > UINT64_MAX >> shift)
        return 0;
    return number << shift;
}

/* Prints the words of a list. */
static inline void workload_print_words(const char *const *words)
{
    for (const char *const *word = words; *word; word++)
        printf("%s%s", word == words ? "" : " or ", *word);
}

/* The position of a word in a list; the length of the list if it is not there. */
static inline int workload_word(const char *const *words, const char *text)
{
    int at = 0;
    while (words[at] && strcmp(words[at], text) != 0)
        at++;
    return at;
}

/* Reads the value of an option that the workload has of its own. */
static inline uint64_t workload_own_value(const struct workload *workload, const struct workload_option *option,
                                          const char *text)
{
    if (option->words) {
        const int at = workload_word(option->words, text);
        if (!option->words[at])
            workload_usage_error(workload, "--%s %s: unknown word", option->name, text);
        return (uint64_t)at;
    }
    const uint64_t number = workload_number(text);
    const bool is_number = number > 0 || strcmp(text, "0") == 0;
    if (!is_number || number < option->least || number > option->most)
        workload_usage_error(workload, "--%s %s: not a whole number from %" PRIu64 " to %" PRIu64, option->name, text,
                             option->least, option->most);
    return number;
}

static inline void workload_help(const struct workload *workload)
{
    printf("%s: %s\n\n", workload->name, workload->summary);
    printf("  --size N[k|M|G]   %s, in %s (default %" PRIu64 ")\n", workload->size_meaning, workload->size_unit,
           workload->size);
    printf("  --iterations N    how many iterations to do (default %" PRIu64 ")\n", workload->iterations);
    printf("  --seconds S       instead: begin iterations until S seconds have passed\n");
    printf("  --threads N       how many threads work (default here %d)\n", workload_default_threads());
    if (workload->modes) {
        printf("  --mode MODE       ");
        workload_print_words(workload->modes);
        printf(" (default %s)\n", workload->modes[0]);
    }
    printf("  --init KIND       which threads touch the memory first: parallel, those that use it, or serial, the first\n"
           "                    thread alone (default parallel)\n");
    for (const struct workload_option *option = workload->options; option && option->name; option++) {
        printf("  --%s %-*s %s", option->name, (int)(14 - strlen(option->name)), option->words ? "WORD" : "N",
               option->meaning);
        if (option->words) {
            printf(": ");
            workload_print_words(option->words);
            printf(" (default %s)\n", option->words[0]);
        } else {
            printf(", from %" PRIu64 " to %" PRIu64 " (default %" PRIu64 ")\n", option->least, option->most,
                   option->value);
        }
    }
    printf("  --help            print this\n");
    printf("\nWith WORKLOAD_CORRUPT=1 in the environment the result is damaged before it is checked.\n");
}

/* Reads the command line. Ends the program after --help, and when an option is not valid. */
static inline struct workload_run workload_options(const struct workload *workload, int argc, char **argv)
{
    enum { FIRST_OWN = 256 }; /* beyond all characters */
    struct option options[8 + WORKLOAD_OWN_OPTIONS] = {
        {"size", required_argument, NULL, 's'},    {"iterations", required_argument, NULL, 'i'},
        {"seconds", required_argument, NULL, 'd'}, {"threads", required_argument, NULL, 't'},
        {"mode", required_argument, NULL, 'm'},    {"init", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    const char *corrupt = getenv("WORKLOAD_CORRUPT");
    struct workload_run run = {
        .workload = workload,
        .size = workload->size,
        .threads = workload_default_threads(),
        .corrupt = corrupt && strcmp(corrupt, "1") == 0,
    };
    struct option *end = options;
    while (end->name)
        end++;
    for (int i = 0; workload->options && workload->options[i].name; i++) {
        *end++ = (struct option){workload->options[i].name, required_argument, NULL, FIRST_OWN + i};
        run.own[i] = workload->options[i].words ? 0 : workload->options[i].value;
    }
    opterr = 0; /* this program prints its own errors, in one sentence */
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        switch (option) {
        case 's':
            run.size = workload_number(optarg);
            if (run.size < workload->smallest_size)
                workload_usage_error(workload, "--size %s: not a number of %s from %" PRIu64 " up", optarg,
                                     workload->size_unit, workload->smallest_size);
            break;
        case 'i':
            run.iteration_limit = workload_number(optarg);
            if (run.iteration_limit == 0)
                workload_usage_error(workload, "--iterations %s: not a whole number from 1 up", optarg);
            break;
        case 'd': {
            char *rest;
            run.seconds_limit = strtod(optarg, &rest);
            if (rest == optarg || *rest != '\0' || !isfinite(run.seconds_limit) || run.seconds_limit <= 0)
                workload_usage_error(workload, "--seconds %s: not a number above 0", optarg);
            break;
        }
        case 't': {
            uint64_t threads = workload_number(optarg);
            if (threads == 0 || threads > 65536)
                workload_usage_error(workload, "--threads %s: not a whole number from 1 to 65536", optarg);
            run.threads = (int)threads;
            break;
        }
        case 'm':
            if (!workload->modes)
                workload_usage_error(workload, "--mode %s: this program has no modes", optarg);
            run.mode = workload_word(workload->modes, optarg);
            if (!workload->modes[run.mode])
                workload_usage_error(workload, "--mode %s: unknown mode", optarg);
            break;
        case 'f':
            run.serial_init = strcmp(optarg, "serial") == 0;
            if (!run.serial_init && strcmp(optarg, "parallel") != 0)
                workload_usage_error(workload, "--init %s: neither serial nor parallel", optarg);
            break;
        case 'h':
            workload_help(workload);
            exit(EXIT_SUCCESS);
        case ':':
            workload_usage_error(workload, "%s: a value is missing", argv[optind - 1]);
        default:
            if (option >= FIRST_OWN) {
                run.own[option - FIRST_OWN] =
                    workload_own_value(workload, &workload->options[option - FIRST_OWN], optarg);
                break;
            }
            if (optopt != 0)
                workload_usage_error(workload, "-%c: unknown option", optopt);
            workload_usage_error(workload, "%s: unknown option", argv[optind - 1]);
        }
    }
    if (optind < argc)
        workload_usage_error(workload, "%s: unexpected argument", argv[optind]);
    if (run.iteration_limit && run.seconds_limit > 0)
        workload_usage_error(workload, "--iterations and --seconds exclude each other");
    if (run.iteration_limit == 0 && run.seconds_limit == 0)
        run.iteration_limit = workload->iterations;
#ifdef _OPENMP
    if (run.threads > omp_get_thread_limit())
        workload_usage_error(workload, "--threads %d: OMP_THREAD_LIMIT allows %d", run.threads, omp_get_thread_limit());
    omp_set_dynamic(0); /* the requested number, even with fewer CPUs */
    omp_set_num_threads(run.threads);
#endif
    return run;
}

/*
 * Memory that no thread has touched yet, so that first touch decides on which NUMA node each page is. With --init
 * serial the calling thread, which is the first one, touches all of it here.
 */
static inline void *workload_allocate(const struct workload_run *run, uint64_t bytes)
{
    uint64_t rounded = (bytes + WORKLOAD_LINE - 1) / WORKLOAD_LINE * WORKLOAD_LINE; /* aligned_alloc requires it */
    volatile char *memory = rounded >= bytes ? aligned_alloc(WORKLOAD_LINE, rounded) : NULL;
    if (!memory) {
        fprintf(stderr, "%s: %" PRIu64 " bytes of memory are not to be had; choose a smaller --size\n",
                run->workload->name, bytes);
        exit(WORKLOAD_EXIT_WRONG);
    }
    if (run->serial_init)
        for (uint64_t at = 0; at < rounded; at += 4096)
            memory[at] = 0;
    return (void *)memory;
}

/* Starts the clock. */
static inline void workload_start(struct workload_run *run)
{
    run->started = workload_now();
}

/* Begins and counts another iteration, or stops the clock. Returns whether one begins. */
static inline bool workload_next(struct workload_run *run)
{
    bool done = run->iteration_limit ? run->iterations == run->iteration_limit
                                     : run->iterations > 0 && workload_now() - run->started >= run->seconds_limit;
    if (done)
        run->seconds = workload_now() - run->started;
    else
        run->iterations++;
    return !done;
}

/*
 * Prints the line that ends a correct run. `amount` of `unit` is the work of all iterations together; `result` is the
 * checked result, the same for every run with the same size and iterations.
 */
static inline void workload_report(const struct workload_run *run, double amount, const char *unit, uint64_t result)
{
    const struct workload *workload = run->workload;
    printf("%s: threads %d, size %" PRIu64 " %s, iterations %" PRIu64 ", time %.6f s, rate %.4g %s/s, result %016" PRIx64
           "\n",
           workload->name, run->threads, run->size, workload->size_unit, run->iterations, run->seconds,
           amount / run->seconds, unit, result);
}

#endif
