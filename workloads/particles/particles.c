/*
 * A particle filter that looks for a body in an image: each particle is a guess of where the body is and how its four
 * limbs are bent. Its weight is the brightness of the image at 32 points along the limbs. Then each particle is
 * repeated as often as its weight says, and moved a little. The particles are divided into equal blocks among the
 * threads.
 *
 * Load on the machine: for each particle 32 bytes of the image are read, within a small square of it, which is anywhere
 * in the image at first and where the image is bright later. All threads read the same image, and never write it.
 * Particles are read and written, the new ones near to the old ones, and so at times by the threads before or after.
 * There are two barriers in an iteration, and all threads read the sums of all others.
 *
 * Effect of placement: an image that fits a last-level cache is copied to each of them, and then a core for each thread
 * is all that counts. A larger one has its pages on all nodes (first touch places the pages), so threads on few nodes
 * have shorter distances.
 *
 * Method: numbers are whole. Particles are drawn by one comb of equal distances over the sum of all weights (systematic
 * resampling), so the ranges of new particles that each old one becomes follow each other. A sum is that of fixed parts
 * of the particles.
 *
 * Check: of the last iteration each weight is computed again from the particle, with an image that is computed and not
 * read, and all particles are drawn again, one after the other. The comparison is exact.
 */
#include "../workload.h"

#include "../permutation.h"

#define LIMBS 4
#define POINTS 8 /* of each limb */

/* The parts of the particles; a multiple of many numbers of cores, so that all threads have equally many. */
#define PARTS UINT64_C(768)

struct particle {
    uint32_t x, y;
    uint32_t limb[LIMBS]; /* how far apart its points are: 4 bits along x and 4 bits along y */
};

/* A particle before and after drawing, and its weight. */
#define PARTICLE_BYTES (2 * sizeof(struct particle) + sizeof(uint64_t))

static const struct workload particles = {
    .name = "particles",
    .summary = "a particle filter over a shared image, bound by scattered reads and computing",
    .size_unit = "bytes",
    .size_meaning = "the image, at most half, whose side is a power of two, and the particles",
    .size = UINT64_C(32) << 20,
    .smallest_size = 2 * PARTICLE_BYTES,
    .iterations = 50,
};

/* The brightness at a place: some squares of eight by eight are bright, others are dim. */
static uint8_t pixel(uint64_t x, uint64_t y, unsigned bits)
{
    const bool bright = number_at(0, (y / 8 << bits) + x / 8) % 8 == 0;
    return (uint8_t)(number_at(1, (y << bits) + x) % 64 + (bright ? 192 : 0));
}

static struct particle start_of(uint64_t i, uint64_t mask)
{
    struct particle particle = {(uint32_t)(number_at(2, i) & mask), (uint32_t)(number_at(3, i) & mask), {0}};
    for (uint64_t limb = 0; limb < LIMBS; limb++)
        particle.limb[limb] = (uint32_t)(number_at(4, i) >> 8 * limb & 255);
    return particle;
}

/* Where point `point` of a limb is, from the body's place; limbs point to all sides. */
static inline uint32_t along(uint32_t bend, uint32_t point)
{
    return point * ((bend & 15) - 8);
}

static inline uint32_t across(uint32_t bend, uint32_t point)
{
    return point * ((bend >> 4) - 8);
}

/* A particle that is drawn as the new one `j`, moved a little. */
static inline struct particle moved(struct particle particle, uint64_t iteration, uint64_t j, uint64_t mask)
{
    const uint64_t number = number_at(iteration + 4, j);
    particle.x = (uint32_t)((particle.x + (number & 7) - 3) & mask);
    particle.y = (uint32_t)((particle.y + (number >> 3 & 7) - 3) & mask);
    for (uint64_t limb = 0; limb < LIMBS; limb++)
        particle.limb[limb] ^= (uint32_t)(number >> (8 + 8 * limb) & 17); /* the lowest bit of each direction */
    return particle;
}

/* The first particle of a part. */
static uint64_t part_begin(uint64_t count, uint64_t part)
{
    return count * part / PARTS;
}

/* The number of new particles that the old ones become whose weights together are `sum`. */
static inline uint64_t drawn(uint64_t sum, uint64_t total, uint64_t count)
{
    return sum * count / total;
}

static inline uint64_t weigh(const struct particle *particle, const uint8_t *image, unsigned bits)
{
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    uint64_t weight = 1;
    for (int limb = 0; limb < LIMBS; limb++)
        for (uint32_t point = 1; point <= POINTS; point++) {
            const uint32_t x = (particle->x + along(particle->limb[limb], point)) & mask;
            const uint32_t y = (particle->y + across(particle->limb[limb], point)) & mask;
            weight += image[((uint64_t)y << bits) + x];
        }
    return weight;
}

/* The same without the image. */
static uint64_t exact_weight(const struct particle *particle, unsigned bits)
{
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    uint64_t weight = 1;
    for (int limb = 0; limb < LIMBS; limb++) {
        uint32_t x = particle->x, y = particle->y;
        for (int point = 1; point <= POINTS; point++) {
            x = (x + particle->limb[limb] % 16 - 8) & mask;
            y = (y + particle->limb[limb] / 16 - 8) & mask;
            weight += pixel(x, y, bits);
        }
    }
    return weight;
}

int main(int argc, char **argv)
{
    struct workload_run run = workload_options(&particles, argc, argv);
    const unsigned bits = permutation_bits(run.size / 2) / 2;
    const uint64_t side = UINT64_C(1) << bits, mask = side - 1, count = (run.size - side * side) / PARTICLE_BYTES;
    /* The sum of all weights times the number of particles has 64 bits. */
    if (bits > 15 || count > UINT64_C(1) << 25)
        workload_usage_error(&particles, "--size %" PRIu64 ": choose at most 2G", run.size);
    run.size = side * side + count * PARTICLE_BYTES;
    uint8_t *image = workload_allocate(&run, side * side);
    struct particle *from = workload_allocate(&run, count * sizeof *from);
    struct particle *to = workload_allocate(&run, count * sizeof *to);
    uint64_t *weight = workload_allocate(&run, count * sizeof *weight);
    uint64_t *partial = workload_allocate(&run, PARTS * sizeof *partial);

#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (uint64_t y = 0; y < side; y++)
            for (uint64_t x = 0; x < side; x++)
                image[(y << bits) + x] = pixel(x, y, bits);
#pragma omp for schedule(static)
        for (uint64_t part = 0; part < PARTS; part++) {
            for (uint64_t i = part_begin(count, part); i < part_begin(count, part + 1); i++) {
                from[i] = to[i] = start_of(i, mask);
                weight[i] = 0;
            }
            partial[part] = 0;
        }
    }

    workload_start(&run);
    while (workload_next(&run)) {
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (uint64_t part = 0; part < PARTS; part++) {
                uint64_t sum = 0;
                for (uint64_t i = part_begin(count, part); i < part_begin(count, part + 1); i++) {
                    weight[i] = weigh(&from[i], image, bits);
                    sum += weight[i];
                }
                partial[part] = sum;
            }
            uint64_t total = 0;
            for (uint64_t part = 0; part < PARTS; part++)
                total += partial[part];
            uint64_t sum = 0, summed = 0; /* of the parts before `summed` */
#pragma omp for schedule(static)
            for (uint64_t part = 0; part < PARTS; part++) {
                for (; summed < part; summed++)
                    sum += partial[summed];
                summed++; /* this part follows here */
                for (uint64_t i = part_begin(count, part); i < part_begin(count, part + 1); i++) {
                    const uint64_t begin = drawn(sum, total, count);
                    sum += weight[i];
                    for (uint64_t j = begin; j < drawn(sum, total, count); j++)
                        to[j] = moved(from[i], run.iterations, j, mask);
                }
            }
        }
        struct particle *swapped = from;
        from = to;
        to = swapped;
    }

    /* The last iteration's particles before drawing are in `to` now. */
    from[count / 2].x ^= (uint32_t)run.corrupt;
    uint64_t total = 0, first_wrong = count;
#pragma omp parallel for schedule(static) reduction(min : first_wrong) reduction(+ : total)
    for (uint64_t i = 0; i < count; i++) {
        if (weight[i] != exact_weight(&to[i], bits) && i < first_wrong)
            first_wrong = i;
        total += weight[i];
    }
    if (first_wrong < count)
        workload_wrong(&run, "particle %" PRIu64 " has the weight %" PRIu64, first_wrong, weight[first_wrong]);
    uint64_t sum = 0;
    for (uint64_t i = 0, below = weight[0], j = 0; j < count; j++) {
        while (drawn(below, total, count) <= j)
            below += weight[++i];
        const struct particle expected = moved(to[i], run.iterations, j, mask);
        if (memcmp(&from[j], &expected, sizeof expected) != 0)
            workload_wrong(&run, "new particle %" PRIu64 " is at (%" PRIu32 ", %" PRIu32 ") and must be at (%" PRIu32
                           ", %" PRIu32 "), or has other limbs", j, from[j].x, from[j].y, expected.x, expected.y);
        sum += (from[j].x + 3 * (uint64_t)from[j].y + 5 * (uint64_t)from[j].limb[0]) * (2 * j + 1);
    }
    workload_report(&run, 1e-6 * (double)count * (double)run.iterations, "million particles", sum);
    free(image);
    free(from);
    free(to);
    free(weight);
    free(partial);
    return EXIT_SUCCESS;
}
