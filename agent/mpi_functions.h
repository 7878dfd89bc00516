/*
 * The MPI functions whose calls stand for progress: point-to-point communication, waits, collective operations, the
 * synchronisation and the writes of one-sided communication, and input and output.
 *
 * Functions that a waiting rank may call in a loop are not here: MPI_Test, MPI_Iprobe, MPI_Win_test, MPI_Win_sync,
 * MPI_Win_flush, MPI_Parrived and their relatives, and one-sided reads, with which a rank polls a remote value. The
 * second half of a split collective is not here either, because the first half counts.
 *
 * MPI 4 has a second version of many functions, whose name ends in `_c`, for counts of more than 32 bits.
 */
#ifndef PINFOLD_MPI_FUNCTIONS_H
#define PINFOLD_MPI_FUNCTIONS_H

#define WITH_LARGE_COUNTS(X, name) X(name) X(name##_c)

#define MPI_POINT_TO_POINT(X)                                                                                         \
    WITH_LARGE_COUNTS(X, Send)                                                                                        \
    WITH_LARGE_COUNTS(X, Bsend)                                                                                       \
    WITH_LARGE_COUNTS(X, Ssend)                                                                                       \
    WITH_LARGE_COUNTS(X, Rsend)                                                                                       \
    WITH_LARGE_COUNTS(X, Recv)                                                                                        \
    WITH_LARGE_COUNTS(X, Mrecv)                                                                                       \
    WITH_LARGE_COUNTS(X, Sendrecv)                                                                                    \
    WITH_LARGE_COUNTS(X, Sendrecv_replace)                                                                            \
    WITH_LARGE_COUNTS(X, Isend)                                                                                       \
    WITH_LARGE_COUNTS(X, Ibsend)                                                                                      \
    WITH_LARGE_COUNTS(X, Issend)                                                                                      \
    WITH_LARGE_COUNTS(X, Irsend)                                                                                      \
    WITH_LARGE_COUNTS(X, Irecv)                                                                                       \
    WITH_LARGE_COUNTS(X, Imrecv)                                                                                      \
    WITH_LARGE_COUNTS(X, Isendrecv)                                                                                   \
    WITH_LARGE_COUNTS(X, Isendrecv_replace)                                                                           \
    X(Start)                                                                                                          \
    X(Startall)                                                                                                       \
    X(Pready)                                                                                                         \
    X(Pready_range)                                                                                                   \
    X(Pready_list)

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
    WITH_LARGE_COUNTS(X, Bcast)                                                                                       \
    WITH_LARGE_COUNTS(X, Ibcast)                                                                                      \
    WITH_LARGE_COUNTS(X, Gather)                                                                                      \
    WITH_LARGE_COUNTS(X, Igather)                                                                                     \
    WITH_LARGE_COUNTS(X, Gatherv)                                                                                     \
    WITH_LARGE_COUNTS(X, Igatherv)                                                                                    \
    WITH_LARGE_COUNTS(X, Scatter)                                                                                     \
    WITH_LARGE_COUNTS(X, Iscatter)                                                                                    \
    WITH_LARGE_COUNTS(X, Scatterv)                                                                                    \
    WITH_LARGE_COUNTS(X, Iscatterv)                                                                                   \
    WITH_LARGE_COUNTS(X, Allgather)                                                                                   \
    WITH_LARGE_COUNTS(X, Iallgather)                                                                                  \
    WITH_LARGE_COUNTS(X, Allgatherv)                                                                                  \
    WITH_LARGE_COUNTS(X, Iallgatherv)                                                                                 \
    WITH_LARGE_COUNTS(X, Alltoall)                                                                                    \
    WITH_LARGE_COUNTS(X, Ialltoall)                                                                                   \
    WITH_LARGE_COUNTS(X, Alltoallv)                                                                                   \
    WITH_LARGE_COUNTS(X, Ialltoallv)                                                                                  \
    WITH_LARGE_COUNTS(X, Alltoallw)                                                                                   \
    WITH_LARGE_COUNTS(X, Ialltoallw)                                                                                  \
    WITH_LARGE_COUNTS(X, Reduce)                                                                                      \
    WITH_LARGE_COUNTS(X, Ireduce)                                                                                     \
    WITH_LARGE_COUNTS(X, Allreduce)                                                                                   \
    WITH_LARGE_COUNTS(X, Iallreduce)                                                                                  \
    WITH_LARGE_COUNTS(X, Reduce_scatter)                                                                              \
    WITH_LARGE_COUNTS(X, Ireduce_scatter)                                                                             \
    WITH_LARGE_COUNTS(X, Reduce_scatter_block)                                                                        \
    WITH_LARGE_COUNTS(X, Ireduce_scatter_block)                                                                       \
    WITH_LARGE_COUNTS(X, Scan)                                                                                        \
    WITH_LARGE_COUNTS(X, Iscan)                                                                                       \
    WITH_LARGE_COUNTS(X, Exscan)                                                                                      \
    WITH_LARGE_COUNTS(X, Iexscan)                                                                                     \
    WITH_LARGE_COUNTS(X, Neighbor_allgather)                                                                          \
    WITH_LARGE_COUNTS(X, Ineighbor_allgather)                                                                         \
    WITH_LARGE_COUNTS(X, Neighbor_allgatherv)                                                                         \
    WITH_LARGE_COUNTS(X, Ineighbor_allgatherv)                                                                        \
    WITH_LARGE_COUNTS(X, Neighbor_alltoall)                                                                           \
    WITH_LARGE_COUNTS(X, Ineighbor_alltoall)                                                                          \
    WITH_LARGE_COUNTS(X, Neighbor_alltoallv)                                                                          \
    WITH_LARGE_COUNTS(X, Ineighbor_alltoallv)                                                                         \
    WITH_LARGE_COUNTS(X, Neighbor_alltoallw)                                                                          \
    WITH_LARGE_COUNTS(X, Ineighbor_alltoallw)

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
    WITH_LARGE_COUNTS(X, Put)                                                                                         \
    WITH_LARGE_COUNTS(X, Rput)                                                                                        \
    WITH_LARGE_COUNTS(X, Accumulate)                                                                                  \
    WITH_LARGE_COUNTS(X, Raccumulate)

#define MPI_FILES(X)                                                                                                  \
    WITH_LARGE_COUNTS(X, File_read)                                                                                   \
    WITH_LARGE_COUNTS(X, File_read_all)                                                                               \
    WITH_LARGE_COUNTS(X, File_read_all_begin)                                                                         \
    WITH_LARGE_COUNTS(X, File_read_at)                                                                                \
    WITH_LARGE_COUNTS(X, File_read_at_all)                                                                            \
    WITH_LARGE_COUNTS(X, File_read_at_all_begin)                                                                      \
    WITH_LARGE_COUNTS(X, File_read_ordered)                                                                           \
    WITH_LARGE_COUNTS(X, File_read_ordered_begin)                                                                     \
    WITH_LARGE_COUNTS(X, File_read_shared)                                                                            \
    WITH_LARGE_COUNTS(X, File_iread)                                                                                  \
    WITH_LARGE_COUNTS(X, File_iread_all)                                                                              \
    WITH_LARGE_COUNTS(X, File_iread_at)                                                                               \
    WITH_LARGE_COUNTS(X, File_iread_at_all)                                                                           \
    WITH_LARGE_COUNTS(X, File_iread_shared)                                                                           \
    WITH_LARGE_COUNTS(X, File_write)                                                                                  \
    WITH_LARGE_COUNTS(X, File_write_all)                                                                              \
    WITH_LARGE_COUNTS(X, File_write_all_begin)                                                                        \
    WITH_LARGE_COUNTS(X, File_write_at)                                                                               \
    WITH_LARGE_COUNTS(X, File_write_at_all)                                                                           \
    WITH_LARGE_COUNTS(X, File_write_at_all_begin)                                                                     \
    WITH_LARGE_COUNTS(X, File_write_ordered)                                                                          \
    WITH_LARGE_COUNTS(X, File_write_ordered_begin)                                                                    \
    WITH_LARGE_COUNTS(X, File_write_shared)                                                                           \
    WITH_LARGE_COUNTS(X, File_iwrite)                                                                                 \
    WITH_LARGE_COUNTS(X, File_iwrite_all)                                                                             \
    WITH_LARGE_COUNTS(X, File_iwrite_at)                                                                              \
    WITH_LARGE_COUNTS(X, File_iwrite_at_all)                                                                          \
    WITH_LARGE_COUNTS(X, File_iwrite_shared)

/* The order is the order of the entries in mpi_entries.S and of the names in mpi.c. */
#define MPI_FUNCTIONS(X) MPI_POINT_TO_POINT(X) MPI_WAITS(X) MPI_COLLECTIVES(X) MPI_ONE_SIDED(X) MPI_FILES(X)

#endif
