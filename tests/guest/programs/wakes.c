/*
 * wakes SHAPE NUMBER: tasks that wake each other. Each is a process of its own. It prints the process ids of every two
 * that wake each other, a line for each pair, and then works until SIGTERM arrives.
 *
 *   pairs    NUMBER pairs, which send a byte back and forth through pipes
 *   ring     NUMBER tasks in a ring of pipes, with a byte under way for every two of them
 *   server   a server with NUMBER clients, which wait for its answers on sockets
 *
 * Between two messages a task works for about 50 us.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 64

static int number;

static void work(void)
{
    for (volatile int step = 0; step < 20000; step++)
        ;
}

static void failed(const char *what)
{
    perror(what);
    exit(1);
}

/* Starts a task, and returns its number. It ends with its parent. */
static pid_t begin(void (*task)(int, int), int from, int to)
{
    const pid_t child = fork();
    if (child < 0)
        failed("fork");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    task(from, to);
    _exit(0);
}

/* Passes on what comes. */
static void pass(int from, int to)
{
    char byte;
    while (read(from, &byte, 1) == 1) {
        work();
        if (write(to, &byte, 1) != 1)
            break;
    }
}

/* Asks again and again. */
static void ask(int from, int to)
{
    char byte = 0;
    do
        work();
    while (write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1);
}

static struct pollfd clients[MOST];

/* Answers all clients. */
static void answer(int from, int to)
{
    char byte;
    (void)from;
    (void)to;
    while (poll(clients, (nfds_t)number, -1) > 0)
        for (int one = 0; one < number; one++)
            if (clients[one].revents & POLLIN && read(clients[one].fd, &byte, 1) == 1) {
                work();
                if (write(clients[one].fd, &byte, 1) != 1)
                    return;
            }
}

/* A ring of pipes among `length` tasks, in which every second begins with a byte. */
static void ring(int length)
{
    int pipes[MOST][2];
    pid_t tasks[MOST];
    for (int one = 0; one < length; one++)
        if (pipe(pipes[one]) != 0)
            failed("pipe");
    for (int one = 0; one < length; one++)
        tasks[one] = begin(pass, pipes[one][0], pipes[(one + 1) % length][1]);
    for (int one = 0; one < length; one++)
        printf(one + 1 < length || length > 2 ? "%d %d\n" : "", tasks[one], tasks[(one + 1) % length]);
    for (int one = 0; one < length; one += 2)
        if (write(pipes[one][1], "", 1) != 1)
            failed("write");
}

static void server(void)
{
    int pairs[MOST][2];
    pid_t all[MOST];
    for (int one = 0; one < number; one++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[one]) != 0)
            failed("socketpair");
        clients[one] = (struct pollfd){.fd = pairs[one][0], .events = POLLIN};
    }
    const pid_t own = begin(answer, 0, 0);
    for (int one = 0; one < number; one++)
        all[one] = begin(ask, pairs[one][1], pairs[one][1]);
    for (int one = 0; one < number; one++)
        printf("%d %d\n", own, all[one]);
}

int main(int argc, char **argv)
{
    number = argc == 3 ? atoi(argv[2]) : 0;
    if (number < 1 || number > MOST) {
        fprintf(stderr, "usage: wakes pairs|ring|server NUMBER\n");
        return 2;
    }
    if (strcmp(argv[1], "pairs") == 0)
        for (int one = 0; one < number; one++)
            ring(2);
    else if (strcmp(argv[1], "ring") == 0)
        ring(number);
    else
        server();
    fflush(stdout);
    pause();
    return 0;
}
