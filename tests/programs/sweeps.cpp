/*
 * sweeps THREADS SECONDS: THREADS threads work for SECONDS. Each calls solver::Grid::sweep again and again, which takes
 * about four milliseconds of processor time, so that the rate follows the program's speed. Output as of steps.c.
 */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

static std::atomic<long> sweeps;

static double seconds(clockid_t clock)
{
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

namespace solver
{
struct Grid {
    std::vector<double> cells = std::vector<double>(1024, 1.0);
    long turns = 1;

    [[gnu::noinline]] void sweep(double by)
    {
        for (long turn = 0; turn < turns; turn++)
            for (size_t cell = 1; cell < cells.size(); cell++)
                cells[cell] = by * cells[cell] + 0.5 * cells[cell - 1];
    }

    /* Makes a sweep take this processor time. */
    void last(double wanted)
    {
        for (double took = 0; took < wanted / 2; turns *= 2) {
            double begun = seconds(CLOCK_THREAD_CPUTIME_ID);
            sweep(0.5);
            took = seconds(CLOCK_THREAD_CPUTIME_ID) - begun;
        }
    }
};
} // namespace solver

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    double begun = seconds(CLOCK_MONOTONIC), end = begun + std::atof(argv[2]);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < std::atoi(argv[1]); thread++)
        threads.emplace_back([end] {
            solver::Grid grid;
            grid.last(4e-3);
            while (seconds(CLOCK_MONOTONIC) < end) {
                grid.sweep(0.5);
                sweeps++;
            }
        });
    std::vector<std::pair<double, long>> seen;
    for (double at = begun; at < end; at = seconds(CLOCK_MONOTONIC)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        seen.emplace_back(seconds(CLOCK_MONOTONIC) - begun, sweeps.load());
    }
    for (auto &thread : threads)
        thread.join();
    for (auto &[at, until] : seen)
        std::printf("%.4f %ld\n", at, until);
}
