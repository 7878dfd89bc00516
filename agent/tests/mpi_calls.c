/*
 * Makes one kind of MPI calls ROUNDS times in each rank, and checks what they return: mpi_calls KIND. It runs with two
 * ranks. crates/linux/tests/mpi.rs knows how many calls of each kind count.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 10, SIZE = 100 };

static int rank, other;

static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* 2 calls a round. */
static void blocking(void)
{
    double sent[SIZE], received[SIZE];
    for (int i = 0; i < SIZE; i++)
        sent[i] = rank + i;
    MPI_Status status;
    if (rank == 0) {
        MPI_Send(sent, SIZE, MPI_DOUBLE, other, 7, MPI_COMM_WORLD);
        MPI_Recv(received, SIZE, MPI_DOUBLE, other, 8, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(received, SIZE, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Ssend(sent, SIZE, MPI_DOUBLE, other, 8, MPI_COMM_WORLD);
    }
    check(status.MPI_SOURCE == other && received[SIZE - 1] == other + SIZE - 1, "the message");
}

/* 1 call a round, with twelve arguments: six of them are on the stack. */
static void sendrecv(void)
{
    int sent = 40 + rank, received = 0, count = 0;
    MPI_Status status;
    MPI_Sendrecv(&sent, 1, MPI_INT, other, 3, &received, 1, MPI_INT, other, 3, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    check(received == 40 + other && count == 1 && status.MPI_TAG == 3, "what MPI_Sendrecv returns");
}

/* 3 calls a round: the polls do not count. */
static void nonblocking(void)
{
    int sent[2] = {rank, 1}, received[2] = {-1, -1}, done = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(received, 2, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 2, MPI_INT, other, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Testall(2, requests, &done, statuses);
    MPI_Waitall(2, requests, statuses);
    check(received[0] == other && received[1] == 1, "the message");
}

/* 1 call a round: the other rank is late, and this rank polls. */
static void polls(void)
{
    int there = 0, message = rank;
    if (rank == 1) {
        usleep(1000);
        MPI_Send(&message, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
        return;
    }
    while (!there)
        MPI_Iprobe(other, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(&message, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wtime();
}

/* 4 calls a round. */
static void collectives(void)
{
    int sum = 0, mine = rank + 1, all[2] = {0, 0}, counts[2] = {1, 1}, displacements[2] = {0, 1};
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    check(sum == 3, "the sum");
    MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgatherv(&mine, 1, MPI_INT, all, counts, displacements, MPI_INT, MPI_COMM_WORLD);
    check(all[0] == 1 && all[1] == 2, "all values");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* 3 calls a round and one more: two fences and a put; the reads do not count. */
static void one_sided(void)
{
    static MPI_Win window;
    static int value, shared = -1;
    if (value == 0)
        MPI_Win_create(&shared, sizeof shared, sizeof shared, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    value++;
    int message = 10 * value + rank, read = 0;
    MPI_Win_fence(0, window);
    MPI_Put(&message, 1, MPI_INT, other, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    check(shared == 10 * value + other, "the value that the other rank has put");
    MPI_Get(&read, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
    if (value == ROUNDS) {
        MPI_Win_fence(0, window);
        MPI_Win_free(&window);
    }
}

/* 2 calls a round, which call many functions of MPI themselves. */
static void files(void)
{
    MPI_File file;
    int mine[SIZE], read[SIZE];
    for (int i = 0; i < SIZE; i++)
        mine[i] = SIZE * rank + i;
    MPI_Datatype every_second;
    MPI_Type_vector(SIZE, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    check(MPI_File_open(MPI_COMM_WORLD, getenv("MPI_FILE"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
              MPI_SUCCESS,
          "opening the file");
    MPI_File_set_view(file, (MPI_Offset)(rank * sizeof *mine), MPI_INT, every_second, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, mine, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(file, 0, read, SIZE, MPI_INT, MPI_STATUS_IGNORE);
    check(memcmp(mine, read, sizeof mine) == 0, "what was written");
    MPI_File_close(&file);
    MPI_Type_free(&every_second);
}

static void *send_to_itself(void *communicator)
{
    int sent = 5, received = 0;
    for (int i = 0; i < 100; i++)
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 0, &received, 1, MPI_INT, 0, 0, *(MPI_Comm *)communicator,
                     MPI_STATUS_IGNORE);
    check(received == 5, "the own message");
    return NULL;
}

/* 400 calls a round, of four threads. */
static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t ids[THREADS];
    MPI_Comm communicators[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_SELF, &communicators[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, send_to_itself, &communicators[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&communicators[i]);
}

/* 2 calls a round, around the functions that tools replace. */
static void profiling(void)
{
    int sum = 0;
    PMPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Barrier(MPI_COMM_WORLD);
    check(sum == 1, "the sum");
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*round)(void);
    } kinds[] = {
        {"blocking", blocking}, {"sendrecv", sendrecv},       {"nonblocking", nonblocking},
        {"polls", polls},       {"collectives", collectives}, {"one_sided", one_sided},
        {"files", files},       {"threads", threads},         {"profiling", profiling},
    };
    int provided = 0, ranks = 0;
    MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(count == 2 && ranks == 2 && provided == MPI_THREAD_MULTIPLE, "the start: mpirun -n 2 mpi_calls KIND");
    other = 1 - rank;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int round = 0; strcmp(kinds[i].name, words[1]) == 0 && round < ROUNDS; round++)
            kinds[i].round();
    return MPI_Finalize();
}
