/*
 * The MPI functions whose calls stand for progress: point-to-point communication, waits, collective operations, the
 * synchronisation and the writes of one-sided communication, and input and output.
 *
 * Functions that a waiting rank may call in a loop are not here: MPI_Test, MPI_Iprobe, MPI_Win_test, MPI_Win_sync,
 * MPI_Win_flush and their relatives, and one-sided reads, by which a rank polls a remote value. The second half of a
 * split collective is not here either, because the first half counts.
 *
 * All are of MPI 3.0 (2012) or earlier. mpi4py and others test by weak references whether a library has later
 * functions. They must not find here what their library lacks.
 */
#ifndef PINFOLD_MPI_FUNCTIONS_H
#define PINFOLD_MPI_FUNCTIONS_H

#define MPI_POINT_TO_POINT(X)                                                                                         \
    X(Send)                                                                                                           \
    X(Bsend)                                                                                                          \
    X(Ssend)                                                                                                          \
    X(Rsend)                                                                                                          \
    X(Recv)                                                                                                           \
    X(Mrecv)                                                                                                          \
    X(Sendrecv)                                                                                                       \
    X(Sendrecv_replace)                                                                                               \
    X(Isend)                                                                                                          \
    X(Ibsend)                                                                                                         \
    X(Issend)                                                                                                         \
    X(Irsend)                                                                                                         \
    X(Irecv)                                                                                                          \
    X(Imrecv)                                                                                                         \
    X(Start)                                                                                                          \
    X(Startall)

#define MPI_WAITS(X)                                                                                                  \
    X(Wait)                                                                                                           \
    X(Waitany)                                                                                                        \
    X(Waitall)                                                                                                        \
    X(Waitsome)                                                                                                       \
    X(Probe)                                                                                                          \
    X(Mprobe)

#define MPI_COLLECTIVES(X)                                                                                            \
    X(Barrier)                                                                                                        \
    X(Ibarrier)                                                                                                       \
    X(Bcast)                                                                                                          \
    X(Ibcast)                                                                                                         \
    X(Gather)                                                                                                         \
    X(Igather)                                                                                                        \
    X(Gatherv)                                                                                                        \
    X(Igatherv)                                                                                                       \
    X(Scatter)                                                                                                        \
    X(Iscatter)                                                                                                       \
    X(Scatterv)                                                                                                       \
    X(Iscatterv)                                                                                                      \
    X(Allgather)                                                                                                      \
    X(Iallgather)                                                                                                     \
    X(Allgatherv)                                                                                                     \
    X(Iallgatherv)                                                                                                    \
    X(Alltoall)                                                                                                       \
    X(Ialltoall)                                                                                                      \
    X(Alltoallv)                                                                                                      \
    X(Ialltoallv)                                                                                                     \
    X(Alltoallw)                                                                                                      \
    X(Ialltoallw)                                                                                                     \
    X(Reduce)                                                                                                         \
    X(Ireduce)                                                                                                        \
    X(Allreduce)                                                                                                      \
    X(Iallreduce)                                                                                                     \
    X(Reduce_scatter)                                                                                                 \
    X(Ireduce_scatter)                                                                                                \
    X(Reduce_scatter_block)                                                                                           \
    X(Ireduce_scatter_block)                                                                                          \
    X(Scan)                                                                                                           \
    X(Iscan)                                                                                                          \
    X(Exscan)                                                                                                         \
    X(Iexscan)                                                                                                        \
    X(Neighbor_allgather)                                                                                             \
    X(Ineighbor_allgather)                                                                                            \
    X(Neighbor_allgatherv)                                                                                            \
    X(Ineighbor_allgatherv)                                                                                           \
    X(Neighbor_alltoall)                                                                                              \
    X(Ineighbor_alltoall)                                                                                             \
    X(Neighbor_alltoallv)                                                                                             \
    X(Ineighbor_alltoallv)                                                                                            \
    X(Neighbor_alltoallw)                                                                                             \
    X(Ineighbor_alltoallw)

#define MPI_ONE_SIDED(X)                                                                                              \
    X(Win_fence)                                                                                                      \
    X(Win_start)                                                                                                      \
    X(Win_complete)                                                                                                   \
    X(Win_post)                                                                                                       \
    X(Win_wait)                                                                                                       \
    X(Win_lock)                                                                                                       \
    X(Win_lock_all)                                                                                                   \
    X(Win_unlock)                                                                                                     \
    X(Win_unlock_all)                                                                                                 \
    X(Put)                                                                                                            \
    X(Rput)                                                                                                           \
    X(Accumulate)                                                                                                     \
    X(Raccumulate)

#define MPI_FILES(X)                                                                                                  \
    X(File_read)                                                                                                      \
    X(File_read_all)                                                                                                  \
    X(File_read_all_begin)                                                                                            \
    X(File_read_at)                                                                                                   \
    X(File_read_at_all)                                                                                               \
    X(File_read_at_all_begin)                                                                                         \
    X(File_read_ordered)                                                                                              \
    X(File_read_ordered_begin)                                                                                        \
    X(File_read_shared)                                                                                               \
    X(File_iread)                                                                                                     \
    X(File_iread_at)                                                                                                  \
    X(File_iread_shared)                                                                                              \
    X(File_write)                                                                                                     \
    X(File_write_all)                                                                                                 \
    X(File_write_all_begin)                                                                                           \
    X(File_write_at)                                                                                                  \
    X(File_write_at_all)                                                                                              \
    X(File_write_at_all_begin)                                                                                        \
    X(File_write_ordered)                                                                                             \
    X(File_write_ordered_begin)                                                                                       \
    X(File_write_shared)                                                                                              \
    X(File_iwrite)                                                                                                    \
    X(File_iwrite_at)                                                                                                 \
    X(File_iwrite_shared)

/* The order is the order of the entries in mpi_entries.S and of the names in mpi.c. */
#define MPI_FUNCTIONS(X) MPI_POINT_TO_POINT(X) MPI_WAITS(X) MPI_COLLECTIVES(X) MPI_ONE_SIDED(X) MPI_FILES(X)

#endif
