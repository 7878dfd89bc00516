// heartbeats THREADS BEATS: each thread calls the heartbeat BEATS times, all at once.
#include "../pinfold.h"

#include <cstdlib>
#include <thread>
#include <vector>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const long beats = std::atol(argv[2]);
    std::vector<std::thread> threads;
    for (long i = 0; i < std::atol(argv[1]); i++)
        threads.emplace_back([beats] {
            for (long beat = 0; beat < beats; beat++)
                pinfold_heartbeat();
        });
    for (auto &thread : threads)
        thread.join();
}
