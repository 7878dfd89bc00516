/*
 * Runs one OpenMP construct ROUNDS times, with a team of THREADS: constructs NAME. crates/linux/tests/agent.rs knows
 * how many regions and barriers each has. A loop or section that must end with a barrier is followed by work that
 * needs it, because compilers leave out a barrier just before the one that ends the region.
 */
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 10, THREADS = 3, SIZE = 64 };

static int data[SIZE];
static int sum;

static void use(void)
{
#pragma omp atomic
    sum += data[omp_get_thread_num()];
}

static void empty(void)
{
#pragma omp parallel
    use();
}

static void static_loop(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int i = 0; i < SIZE; i++)
            data[i]++;
        use();
    }
}

static void dynamic_loop(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < SIZE; i++)
            data[i]++;
        use();
    }
}

static void guided_loop(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(guided)
        for (int i = 0; i < SIZE; i++)
            data[i]++;
        use();
    }
}

static void ordered_loop(void)
{
#pragma omp parallel
    {
#pragma omp for ordered schedule(dynamic)
        for (int i = 0; i < SIZE; i++)
#pragma omp ordered
            data[i]++;
        use();
    }
}

static void loop_nowait(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1) nowait
        for (int i = 0; i < SIZE; i++)
            data[i]++;
        use();
    }
}

static void combined_loops(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(dynamic, 2)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(monotonic : dynamic, 2)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(guided)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(monotonic : guided)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(monotonic : runtime)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
#pragma omp parallel for schedule(nonmonotonic : runtime)
    for (int i = 0; i < SIZE; i++)
        data[i]++;
}

static void reduction(void)
{
    int total = 0;
#pragma omp parallel for reduction(+ : total)
    for (int i = 0; i < SIZE; i++)
        total += data[i];
    sum += total;
}

static void task_reduction(void)
{
    int total = 0;
#pragma omp parallel reduction(task, + : total)
    {
#pragma omp task in_reduction(+ : total)
        total++;
    }
    sum += total;
}

static void loop_with_task_reduction(void)
{
    int total = 0;
#pragma omp parallel
    {
#pragma omp for reduction(task, + : total)
        for (int i = 0; i < SIZE; i++)
#pragma omp task in_reduction(+ : total)
            total++;
        use();
    }
    sum += total;
}

static void sections(void)
{
#pragma omp parallel
    {
#pragma omp sections
        {
#pragma omp section
            data[0]++;
#pragma omp section
            data[1]++;
        }
        use();
    }
}

static void combined_sections(void)
{
#pragma omp parallel sections
    {
#pragma omp section
        data[0]++;
#pragma omp section
        data[1]++;
    }
}

static void single(void)
{
#pragma omp parallel
    {
#pragma omp single
        data[0]++;
        use();
    }
}

static void copyprivate(void)
{
    int value = 0;
#pragma omp parallel private(value)
    {
#pragma omp single copyprivate(value)
        value = data[0]++;
#pragma omp atomic
        sum += value;
    }
}

static void tasks(void)
{
#pragma omp parallel
    {
#pragma omp single nowait
        {
            for (int i = 0; i < SIZE; i++)
#pragma omp task
                data[i]++;
#pragma omp taskwait
#pragma omp taskgroup
            {
#pragma omp task
                data[0]++;
            }
        }
    }
}

static void explicit_barriers(void)
{
#pragma omp parallel
    for (int i = 0; i < 7; i++) {
        use();
#pragma omp barrier
    }
}

static void nested(void)
{
    omp_set_max_active_levels(2);
#pragma omp parallel
#pragma omp parallel num_threads(2)
    {
        use();
#pragma omp barrier
        use();
    }
}

static void nested_inactive(void)
{
    omp_set_max_active_levels(1);
#pragma omp parallel
#pragma omp parallel num_threads(2)
    {
        use();
#pragma omp barrier
        use();
    }
}

static void team_of_one(void)
{
#pragma omp parallel if (0)
    {
        use();
#pragma omp barrier
        use();
    }
}

static void barrier_outside_regions(void)
{
#pragma omp barrier
    use();
}

static void cancelled_loop(void)
{
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < SIZE; i++) {
#pragma omp cancel for
        }
        use();
    }
}

static void league_of_teams(void)
{
#pragma omp teams num_teams(2)
#pragma omp parallel num_threads(2)
    use();
}

static const struct {
    const char *name;
    void (*run)(void);
} constructs[] = {
    {"empty", empty},
    {"static_loop", static_loop},
    {"dynamic_loop", dynamic_loop},
    {"guided_loop", guided_loop},
    {"ordered_loop", ordered_loop},
    {"loop_nowait", loop_nowait},
    {"combined_loops", combined_loops},
    {"reduction", reduction},
    {"task_reduction", task_reduction},
    {"loop_with_task_reduction", loop_with_task_reduction},
    {"sections", sections},
    {"combined_sections", combined_sections},
    {"single", single},
    {"copyprivate", copyprivate},
    {"tasks", tasks},
    {"explicit_barriers", explicit_barriers},
    {"nested", nested},
    {"nested_inactive", nested_inactive},
    {"team_of_one", team_of_one},
    {"barrier_outside_regions", barrier_outside_regions},
    {"cancelled_loop", cancelled_loop},
    {"league_of_teams", league_of_teams},
};

int main(int argc, char **argv)
{
    omp_set_dynamic(0);
    omp_set_num_threads(THREADS);
    for (unsigned i = 0; i < sizeof constructs / sizeof *constructs; i++) {
        if (argc == 2 && strcmp(argv[1], constructs[i].name) == 0) {
            for (int round = 0; round < ROUNDS; round++)
                constructs[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CONSTRUCT\n", argv[0]);
    return 2;
}
