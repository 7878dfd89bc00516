/* Ten parallel regions as GCC before 4.9 compiled them: a start, the body, an end. */
void GOMP_parallel_start(void (*run)(void *), void *data, unsigned threads);
void GOMP_parallel_loop_dynamic_start(void (*run)(void *), void *data, unsigned threads, long start, long end, long step,
                                      long chunk);
void GOMP_parallel_end(void);
void GOMP_loop_end_nowait(void);

static void region(void *data)
{
    (void)data;
}

static void loop(void *data)
{
    (void)data;
    GOMP_loop_end_nowait();
}

int main(void)
{
    for (int i = 0; i < 5; i++) {
        GOMP_parallel_start(region, 0, 2);
        region(0);
        GOMP_parallel_end();
        GOMP_parallel_loop_dynamic_start(loop, 0, 2, 0, 8, 1, 1);
        loop(0);
        GOMP_parallel_end();
    }
    return 0;
}
