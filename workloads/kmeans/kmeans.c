/*
 * K-means clustering: each point is assigned to the nearest of 16 centroids, and each centroid moves to the mean of
 * its points.
 *
 * Load on the machine: the points, 16 coordinates each, stream through the caches. Each of their lines is compared
 * with 16 centroids, which stay in the first-level cache. These are some hundred operations per line, so the program
 * computes more than it reads. At the region's end the threads' sums, 2 KiB each, are added up.
 *
 * Effect of placement: small with few threads. The program scales with cores, and it does not matter which. With many
 * cores on one memory controller the stream of points becomes the limit, and spreading over nodes helps a little. So
 * it is between `compute` and `stream`, and tests the thresholds of a policy.
 *
 * Check: the points are around known centres, in pairs opposite to each other, so the mean of a cluster is exactly
 * its centre. Each iteration begins with centroids at a known displacement from the centres. The resulting centroids,
 * the sum of squared distances, and at the end each point's cluster are compared.
 */
#include "../workload.h"

#include "../numbers.h"

#define CLUSTERS UINT64_C(16)
#define DIMENSIONS UINT64_C(16)

/* Far enough from each other that displaced centroids are still the nearest to their points: in 16 dimensions a point
 * is at most 4 * 64 from its centre and a centroid no more, while centres are more than 4000 apart. */
#define CENTRE_RANGE 4096
#define OFFSET_RANGE 128

struct point {
    int32_t at[DIMENSIONS];
};

static const struct workload kmeans = {
    .name = "kmeans",
    .summary = "k-means clustering, bound by computing, and by bandwidth when many cores share a memory controller",
    .size_unit = "bytes",
    .size_meaning = "the points and their clusters' numbers together",
    .size = UINT64_C(32) << 20,
    .smallest_size = CLUSTERS * (sizeof(struct point) + sizeof(uint32_t)),
    .iterations = 200,
};

/* A number from -range / 2 to range / 2 - 1. */
static int32_t around_zero(uint64_t number, int32_t range)
{
    return (int32_t)(number % (uint64_t)range) - range / 2;
}

static int32_t centre(uint64_t cluster, uint64_t dimension)
{
    return around_zero(number_at(0, cluster * DIMENSIONS + dimension), CENTRE_RANGE);
}

static int32_t displacement(uint64_t iteration, uint64_t cluster, uint64_t dimension)
{
    return around_zero(number_at(iteration + 1, cluster * DIMENSIONS + dimension), OFFSET_RANGE);
}

/* How far point `i` lies from the centre of its cluster, i % CLUSTERS. A last point without an opposite lies on it. */
static int32_t offset(uint64_t i, uint64_t points, uint64_t dimension)
{
    const uint64_t cluster = i % CLUSTERS, turn = i / CLUSTERS, pair = turn / 2;
    if ((2 * pair + 1) * CLUSTERS + cluster >= points)
        return 0;
    const uint64_t number = number_at(1, (pair * CLUSTERS + cluster) * DIMENSIONS + dimension);
    const int32_t of_pair = around_zero(number, OFFSET_RANGE);
    return turn % 2 == 0 ? of_pair : -of_pair;
}

static int32_t squared_distance(const struct point *restrict a, const struct point *restrict b)
{
    int32_t sum = 0;
    for (uint64_t d = 0; d < DIMENSIONS; d++)
        sum += (a->at[d] - b->at[d]) * (a->at[d] - b->at[d]);
    return sum;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&kmeans, argc, argv);
    const uint64_t points = run.size / (sizeof(struct point) + sizeof(uint32_t));
    run.size = points * (sizeof(struct point) + sizeof(uint32_t));
    struct point *point = workload_allocate(&run, points * sizeof *point);
    uint32_t *cluster_of = workload_allocate(&run, points * sizeof *cluster_of);

    uint64_t spread = 0; /* the sum of squared distances from the centres */
#pragma omp parallel for schedule(static) reduction(+ : spread)
    for (uint64_t i = 0; i < points; i++) {
        cluster_of[i] = 0;
        for (uint64_t d = 0; d < DIMENSIONS; d++) {
            const int32_t from_centre = offset(i, points, d);
            point[i].at[d] = centre(i % CLUSTERS, d) + from_centre;
            spread += (uint64_t)(from_centre * from_centre);
        }
    }

    uint64_t total = 0, expected = 0;
    workload_start(&run);
    while (workload_next(&run)) {
        struct point centroid[CLUSTERS];
        int64_t sums[CLUSTERS * DIMENSIONS] = {0};
        uint64_t members[CLUSTERS] = {0};
        for (uint64_t c = 0; c < CLUSTERS; c++)
            for (uint64_t d = 0; d < DIMENSIONS; d++)
                centroid[c].at[d] = centre(c, d) + displacement(run.iterations, c, d);

        uint64_t distances = 0;
#pragma omp parallel for schedule(static) reduction(+ : distances, sums[ : CLUSTERS * DIMENSIONS], members[ : CLUSTERS])
        for (uint64_t i = 0; i < points; i++) {
            uint64_t nearest = 0;
            int32_t least = INT32_MAX;
            for (uint64_t c = 0; c < CLUSTERS; c++) {
                const int32_t distance = squared_distance(&point[i], &centroid[c]);
                if (distance < least) {
                    least = distance;
                    nearest = c;
                }
            }
            cluster_of[i] = (uint32_t)nearest;
            distances += (uint64_t)least;
            members[nearest]++;
            for (uint64_t d = 0; d < DIMENSIONS; d++)
                sums[nearest * DIMENSIONS + d] += point[i].at[d];
        }

        total += distances;
        expected += spread;
        for (uint64_t c = 0; c < CLUSTERS; c++) {
            for (uint64_t d = 0; d < DIMENSIONS; d++) {
                const int64_t moved = displacement(run.iterations, c, d);
                expected += members[c] * (uint64_t)(moved * moved);
                if (sums[c * DIMENSIONS + d] != (int64_t)members[c] * centre(c, d))
                    workload_wrong(&run, "centroid %" PRIu64 " of iteration %" PRIu64 " is not its cluster's centre", c,
                                   run.iterations);
            }
        }
    }

    total ^= run.corrupt;
    if (total != expected)
        workload_wrong(&run, "the sum of squared distances is %" PRIu64 " and must be %" PRIu64, total, expected);
    for (uint64_t i = 0; i < points; i++)
        if (cluster_of[i] != i % CLUSTERS)
            workload_wrong(&run, "point %" PRIu64 " is in cluster %" PRIu32 " and must be in %" PRIu64, i,
                           cluster_of[i], i % CLUSTERS);
    workload_report(&run, 1e-6 * (double)points * (double)run.iterations, "million points", total);
    free(point);
    free(cluster_of);
    return EXIT_SUCCESS;
}
