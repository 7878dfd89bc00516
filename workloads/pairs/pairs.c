/*
 * Producers and consumers in pairs: thread 2k sends messages of one cache line to thread 2k + 1 through a ring. With
 * an odd number of threads the last one sends to itself.
 *
 * Load on the machine: each message is written in one core's cache and read from another's, and so are the ring's two
 * counters. Pairs are independent of each other.
 *
 * Effect of placement: very large, by rank. The two threads of a pair should be on one core or one last-level cache,
 * where a message takes a few nanoseconds; between packages it takes some hundred. Different pairs should be apart,
 * each with its own caches. A placement that only counts threads per package, or that separates ranks 0, 1, 2 ... as
 * far as possible, is the worst. The waiting side spins, so retired instructions are misleading; the program reports
 * its progress itself, by pinfold_heartbeat().
 *
 * Method: a ring has one writer and one reader. `sent` and `received` only grow. Each is written by one side, and
 * each side keeps a copy of the other's counter, which it renews only when the copy says full or empty.
 *
 * Check: the consumer checks the order of the messages, and sums up the contents. They are 0, 1, 2 ..., so the sum is
 * known.
 *
 * Limit: a waiting thread yields the PU after a while, so that pairs make progress on fewer PUs than threads.
 */
#include "../workload.h"

#include "../spin.h"
#include "pinfold.h"

#include <pthread.h>
#include <stdatomic.h>

#define PAYLOAD 6

/* 64 bytes. */
struct message {
    uint64_t sequence;
    uint64_t payload[PAYLOAD];
    uint64_t last; /* 1 in the message after which no other comes */
};

static const struct workload pairs = {
    .name = "pairs",
    .summary = "producers and consumers in pairs, bound by the route between the two cores of a pair",
    .size_unit = "bytes",
    .size_meaning = "the ring of each pair; an iteration fills it once",
    .size = UINT64_C(64) << 10,
    .smallest_size = sizeof(struct message),
    .iterations = 20000,
};

struct ring {
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t sent;
    uint64_t received_seen; /* the producer's copy of `received` */
    _Alignas(WORKLOAD_LINE) _Atomic uint64_t received;
    uint64_t sent_seen; /* the consumer's copy of `sent` */
    _Alignas(WORKLOAD_LINE) struct message *messages;
    uint64_t capacity;
};

enum role { PRODUCER, CONSUMER, BOTH };

struct worker {
    _Alignas(WORKLOAD_LINE) enum role role;
    struct ring *ring;
    struct workload_run run; /* its own count of iterations */
    pthread_t thread;
    /* What a consumer found. */
    uint64_t messages;
    uint64_t sum;
    bool out_of_turn;
};

static void send(struct ring *ring, bool last)
{
    const uint64_t sequence = atomic_load_explicit(&ring->sent, memory_order_relaxed);
    for (unsigned looks = 0; sequence - ring->received_seen == ring->capacity; spin_pause(&looks))
        ring->received_seen = atomic_load_explicit(&ring->received, memory_order_acquire);
    struct message *message = &ring->messages[sequence % ring->capacity];
    message->sequence = sequence;
    for (uint64_t word = 0; word < PAYLOAD; word++)
        message->payload[word] = sequence * PAYLOAD + word;
    message->last = last;
    atomic_store_explicit(&ring->sent, sequence + 1, memory_order_release);
}

/* Receives one message; returns whether it was the last. */
static bool receive(struct ring *ring, struct worker *consumer)
{
    const uint64_t sequence = atomic_load_explicit(&ring->received, memory_order_relaxed);
    for (unsigned looks = 0; sequence == ring->sent_seen; spin_pause(&looks))
        ring->sent_seen = atomic_load_explicit(&ring->sent, memory_order_acquire);
    const struct message *message = &ring->messages[sequence % ring->capacity];
    consumer->out_of_turn |= message->sequence != sequence;
    for (uint64_t word = 0; word < PAYLOAD; word++)
        consumer->sum += message->payload[word];
    const bool last = message->last;
    consumer->messages++;
    atomic_store_explicit(&ring->received, sequence + 1, memory_order_release);
    return last;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct ring *ring = worker->ring;
    bool goes_on = worker->role == CONSUMER || workload_next(&worker->run);
    while (goes_on) {
        if (worker->role == CONSUMER) {
            for (uint64_t i = 0; i < ring->capacity; i++)
                goes_on = !receive(ring, worker);
        } else {
            for (uint64_t i = 1; i < ring->capacity; i++)
                send(ring, false);
            goes_on = workload_next(&worker->run);
            send(ring, !goes_on);
            for (uint64_t i = 0; worker->role == BOTH && i < ring->capacity; i++)
                receive(ring, worker);
        }
        if (worker->role != PRODUCER)
            pinfold_heartbeat();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&pairs, argc, argv);
    const uint64_t capacity = run.size / sizeof(struct message);
    const int threads = run.threads, rings = (threads + 1) / 2;
    run.size = capacity * sizeof(struct message);
    struct ring *ring = workload_allocate(&run, (uint64_t)rings * sizeof *ring);
    for (int i = 0; i < rings; i++)
        ring[i] = (struct ring){.messages = workload_allocate(&run, run.size), .capacity = capacity};
    struct worker *workers = workload_allocate(&run, (uint64_t)threads * sizeof *workers);

    /* The main thread is thread 0, so that threads count as in OpenMP. */
    workload_start(&run);
    for (int i = 0; i < threads; i++) {
        const enum role alone = i == threads - 1 ? BOTH : PRODUCER;
        workers[i] = (struct worker){.role = i % 2 == 1 ? CONSUMER : alone, .ring = &ring[i / 2], .run = run};
    }
    for (int i = 1; i < threads; i++) {
        const int error = pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        if (error != 0) {
            fprintf(stderr, "pairs: thread %d could not be started: %s; choose fewer --threads\n", i, strerror(error));
            exit(WORKLOAD_EXIT_WRONG);
        }
    }
    work(&workers[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    run.seconds = workload_now() - run.started;

    workers[threads / 2 * 2 == threads ? 1 : threads - 1].sum ^= run.corrupt;
    uint64_t sum = 0, messages = 0;
    for (int i = 0; i < threads; i++) {
        const struct worker *worker = &workers[i];
        if (worker->role == PRODUCER)
            continue;
        const uint64_t words = worker->messages * PAYLOAD;
        if (worker->out_of_turn)
            workload_wrong(&run, "thread %d received a message out of turn", i);
        if (worker->sum != words / 2 * (words - 1))
            workload_wrong(&run, "the sum of what thread %d received is %" PRIu64 " and must be %" PRIu64, i,
                           worker->sum, words / 2 * (words - 1));
        sum += worker->sum;
        messages += worker->messages;
    }
    run.iterations = messages / capacity / (uint64_t)rings; /* the mean, where time was the limit */
    workload_report(&run, 1e-6 * (double)messages, "million messages", sum);
    for (int i = 0; i < rings; i++)
        free(ring[i].messages);
    free(ring);
    free(workers);
    return EXIT_SUCCESS;
}
