/*
 * A pipeline: each thread is a stage. It takes a buffer of 4 KiB from the queue before it, works on it, and puts it
 * into the queue after it. The last stage returns the buffers to the first.
 *
 * Load on the machine: each buffer is read and written by one core after the other, 64 lines at a time in order.
 * Mutexes protect the queues. A stage with an empty queue sleeps until it is woken, so the kernel affects the times.
 *
 * Effect of placement: large, by rank. Buffers move from rank t to rank t + 1, so neighbours should be on one
 * last-level cache, with as few steps between packages as possible; the distance of other ranks does not matter. The
 * slowest stage limits the rate. Stages have equal work only where their number divides 24; a stage with more work
 * should have its own core.
 *
 * Method: 24 rounds of a multiplication and an addition on each word are divided among the stages, so the work is the
 * same for any number of threads. With more than 24 stages some only pass the buffers on. An iteration is as many
 * buffers as exist; the last stage reports each by pinfold_heartbeat().
 *
 * Check: the last stage checks the order of the buffers, and sums up their words. They were 0, 1, 2 ... before the
 * rounds, so the sum is known.
 */
#include "../workload.h"

#include "../chain.h"
#include "pinfold.h"

#include <pthread.h>

#define WORDS UINT64_C(512)
#define ROUNDS UINT64_C(24)

struct buffer {
    _Alignas(WORKLOAD_LINE) uint64_t word[WORDS];
    uint64_t sequence;
};

static const struct workload pipeline = {
    .name = "pipeline",
    .summary = "stages joined by queues, bound by the slowest stage and by the route from each to the next",
    .size_unit = "bytes",
    .size_meaning = "the words of all circulating buffers, a multiple of 4096",
    .size = UINT64_C(256) << 10,
    .smallest_size = WORDS * sizeof(uint64_t),
    .iterations = 4000,
};

/* Room for all buffers, so that only taking can have to wait. */
struct queue {
    _Alignas(WORKLOAD_LINE) pthread_mutex_t mutex;
    pthread_cond_t not_empty;
    struct buffer **buffers;
    uint64_t capacity, first, length;
    bool ended; /* no more buffers will come */
};

struct stage {
    _Alignas(WORKLOAD_LINE) struct queue *from;
    struct queue *to;
    uint64_t rounds;
    bool is_first, is_last;
    struct workload_run run; /* counts the iterations in the first stage */
    pthread_t thread;
    /* What the last stage found. */
    uint64_t passed;
    uint64_t sum;
    bool out_of_turn;
};

static void put(struct queue *queue, struct buffer *buffer)
{
    pthread_mutex_lock(&queue->mutex);
    queue->buffers[(queue->first + queue->length++) % queue->capacity] = buffer;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static void end(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->ended = true;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

/* Takes the next buffer, waiting for one; NULL when no more will come. */
static struct buffer *take(struct queue *queue)
{
    struct buffer *buffer = NULL;
    pthread_mutex_lock(&queue->mutex);
    while (queue->length == 0 && !queue->ended)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    if (queue->length > 0) {
        buffer = queue->buffers[queue->first];
        queue->first = (queue->first + 1) % queue->capacity;
        queue->length--;
    }
    pthread_mutex_unlock(&queue->mutex);
    return buffer;
}

/* What the first stage does with a free buffer before its rounds. */
static void refill(struct buffer *buffer, uint64_t sequence)
{
    buffer->sequence = sequence;
    for (uint64_t i = 0; i < WORDS; i++)
        buffer->word[i] = sequence * WORDS + i;
}

static void transform(struct buffer *buffer, uint64_t rounds)
{
    for (uint64_t round = 0; round < rounds; round++)
        for (uint64_t i = 0; i < WORDS; i++)
            buffer->word[i] = buffer->word[i] * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
}

/* What the last stage does with a buffer after its rounds. */
static void inspect(const struct buffer *buffer, struct stage *stage)
{
    stage->out_of_turn |= buffer->sequence != stage->passed++;
    for (uint64_t i = 0; i < WORDS; i++)
        stage->sum += buffer->word[i];
    pinfold_heartbeat();
}

static void *work(void *argument)
{
    struct stage *stage = argument;
    for (uint64_t taken = 0;; taken++) {
        if (stage->is_first && taken % stage->from->capacity == 0 && !workload_next(&stage->run))
            break;
        struct buffer *buffer = take(stage->from);
        if (!buffer)
            break;
        if (stage->is_first)
            refill(buffer, taken);
        transform(buffer, stage->rounds);
        if (stage->is_last)
            inspect(buffer, stage);
        put(stage->to, buffer);
    }
    if (!stage->is_last)
        end(stage->to);
    return NULL;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&pipeline, argc, argv);
    const uint64_t capacity = run.size / (WORDS * sizeof(uint64_t)), stages = (uint64_t)run.threads;
    run.size = capacity * WORDS * sizeof(uint64_t);
    struct buffer *buffers = workload_allocate(&run, capacity * sizeof *buffers);
    struct queue *queues = workload_allocate(&run, stages * sizeof *queues);
    struct stage *stage = workload_allocate(&run, stages * sizeof *stage);
    for (uint64_t i = 0; i < stages; i++) {
        queues[i] = (struct queue){
            .mutex = PTHREAD_MUTEX_INITIALIZER,
            .not_empty = PTHREAD_COND_INITIALIZER,
            .buffers = workload_allocate(&run, capacity * sizeof(struct buffer *)),
            .capacity = capacity,
        };
    }
    for (uint64_t i = 0; i < capacity; i++)
        put(&queues[0], &buffers[i]);

    /* The main thread is the first stage, so that threads count as in OpenMP. */
    workload_start(&run);
    for (uint64_t i = 0; i < stages; i++) {
        stage[i] = (struct stage){
            .from = &queues[i],
            .to = &queues[(i + 1) % stages],
            .rounds = ROUNDS * (i + 1) / stages - ROUNDS * i / stages,
            .is_first = i == 0,
            .is_last = i == stages - 1,
            .run = run,
        };
    }
    for (uint64_t i = 1; i < stages; i++) {
        const int error = pthread_create(&stage[i].thread, NULL, work, &stage[i]);
        if (error != 0) {
            fprintf(stderr, "pipeline: thread %" PRIu64 " could not be started: %s; choose fewer --threads\n", i,
                    strerror(error));
            exit(WORKLOAD_EXIT_WRONG);
        }
    }
    work(&stage[0]);
    for (uint64_t i = 1; i < stages; i++)
        pthread_join(stage[i].thread, NULL);
    run.seconds = workload_now() - run.started;
    run.iterations = stage[0].run.iterations;

    uint64_t multiplier = 1, increment = 0; /* of all rounds together */
    for (uint64_t round = 0; round < ROUNDS; round++) {
        multiplier *= CHAIN_MULTIPLIER;
        increment = increment * CHAIN_MULTIPLIER + CHAIN_INCREMENT;
    }
    const struct stage *last = &stage[stages - 1];
    const uint64_t passed = run.iterations * capacity, words = passed * WORDS, sum = last->sum ^ run.corrupt;
    const uint64_t expected = words / 2 * (words - 1) * multiplier + words * increment;
    if (last->out_of_turn || last->passed != passed)
        workload_wrong(&run, "%" PRIu64 " buffers of %" PRIu64 " passed, %s", last->passed, passed,
                       last->out_of_turn ? "and not in their turn" : "in their turn");
    if (sum != expected)
        workload_wrong(&run, "the sum of all words is %" PRIu64 " and must be %" PRIu64, sum, expected);
    workload_report(&run, 1e-3 * (double)passed, "thousand buffers", sum);
    for (uint64_t i = 0; i < stages; i++)
        free(queues[i].buffers);
    free(queues);
    free(buffers);
    free(stage);
    return EXIT_SUCCESS;
}
